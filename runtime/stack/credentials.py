"""The embedded stack's first principals: made once, the same after every restart."""

import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from runtime.stack.connection import Approver
from runtime.stack.errors import StackError
from runtime.stack.files import write_private

APPROVERS = ("ana", "ben")


class Credentials(BaseModel):
    """Secrets of the service, the operator and the approvers, in the words of the ready file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    service_token: str
    operator_token: str
    approvers: list[Approver]


def load_or_create(path: Path) -> Credentials:
    """Read the credentials in `path`, or make new ones and keep them there (mode 0600)."""
    if path.exists():
        try:
            return Credentials.model_validate_json(path.read_bytes())
        except ValidationError:
            raise StackError(f"{path} is damaged: restore it, or remove it to get new sign-ins") from None
    created = Credentials(
        service_token=secrets.token_urlsafe(32),
        operator_token=secrets.token_urlsafe(32),
        approvers=[
            Approver(username=name, password=secrets.token_urlsafe(12), token=secrets.token_urlsafe(32))
            for name in APPROVERS
        ],
    )
    write_private(path, created.model_dump_json(indent=1))
    return created
