"""Where processes get the credentials of remote systems: from the vault, and what it has none of from the settings."""

from collections.abc import Mapping

from pydantic import SecretStr

from gateways.credentials import Credential, CredentialUnavailableError, acting_now
from ledger.vault import NoCredentialError, Selection, VaultLockedError


class VaultCredentials:
    """A `CredentialSource`. Locking the vault closes the settings' credentials too."""

    def __init__(self, selection: Selection, names: Mapping[str, str], settings: Mapping[str, Credential]) -> None:
        """`names` is what the vault calls each system: a gateway by its own name, so that one's key never goes to
        another. `settings` has the credentials, by system, that came with the environment."""
        self._selection = selection
        self._names = names
        self._settings = settings

    async def credential(self, system: str) -> Credential:
        who = acting_now()
        if who is None:
            raise LookupError("nobody acts here, so no credential is theirs")
        try:
            record_id, secret = await self._selection.select(who.tenant, self._names[system], who.tool)
        except VaultLockedError:
            raise CredentialUnavailableError("vault_locked") from None
        except NoCredentialError:
            if system in self._settings:
                return self._settings[system]
            raise CredentialUnavailableError("no_credential") from None
        return Credential(record_id, SecretStr(secret))
