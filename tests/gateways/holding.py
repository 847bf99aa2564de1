"""A credential as a test gives it."""

from pydantic import SecretStr

from gateways.credentials import Credential, OneCredential


def held(secret: str, record_id: str = "") -> OneCredential:
    """Whoever acts gets this one."""
    return OneCredential(Credential(record_id, SecretStr(secret)))
