"""The first principals of an embedded stack, and the credentials of its sandbox."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger.data_keys import DataKeys
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.principals import Principals
from ledger.vault import Sealer, Vault

_TENANT = "default"


async def seed(
    database_url: str, credentials: dict[str, Any], master_key: Path, system_keys: Mapping[str, str]
) -> None:
    """Make the service token, the operator and the approvers of `credentials` known, and put the keys of the sandbox's
    systems into the vault; repeating it changes nothing."""
    database = await connect(database_url, maximum=2)
    try:
        master = MasterKey.from_file(master_key)
        principals = Principals(database, DataKeys(master))
        await principals.issue("service", _TENANT, "demo-runtime", token=credentials["service_token"])
        await principals.issue("operator", _TENANT, "operator", token=credentials["operator_token"])
        for approver in credentials["approvers"]:
            name = approver["username"]
            await principals.add_user(
                _TENANT, name, name.title(), approver["password"], ["approver", "finance", "support"]
            )
            await principals.issue("approver", _TENANT, name, token=approver["token"])
        vault = Vault(database.system, Sealer(master))
        for system, key in system_keys.items():
            await vault.put_once(system, key, by="counterseal up")
    finally:
        await database.close()
