"""The first principals of an embedded stack."""

from typing import Any

from ledger.database import connect
from ledger.principals import Principals

_TENANT = "default"


async def seed(database_url: str, credentials: dict[str, Any]) -> None:
    """Make the service token, the operator and the approvers of `credentials` known; repeating it changes nothing."""
    database = await connect(database_url, maximum=2)
    try:
        principals = Principals(database)
        await principals.issue("service", _TENANT, "demo-runtime", token=credentials["service_token"])
        await principals.issue("operator", _TENANT, "operator", token=credentials["operator_token"])
        for approver in credentials["approvers"]:
            name = approver["username"]
            await principals.add_user(_TENANT, name, name.title(), approver["password"], ["approver", "finance"])
            await principals.issue("approver", _TENANT, name, token=approver["token"])
    finally:
        await database.close()
