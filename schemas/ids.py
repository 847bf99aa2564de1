"""Opaque identifiers and the names derived from them."""

import hashlib
import re
import secrets
from typing import Annotated

from pydantic import StringConstraints

_RECHECK = "recheck/"
_REQUEST_ID, _RUN_ID, _APPROVAL_ID, _OPERATION_ID, _NOTICE_ID, _PROPOSAL_ID = (
    rf"^{prefix}_[0-9a-f]{{32}}$" for prefix in ("act", "run", "apr", "op", "ntc", "pol")
)
RequestId = Annotated[str, StringConstraints(pattern=_REQUEST_ID)]
RunId = Annotated[str, StringConstraints(pattern=_RUN_ID)]
ApprovalId = Annotated[str, StringConstraints(pattern=_APPROVAL_ID)]
NoticeId = Annotated[str, StringConstraints(pattern=_NOTICE_ID)]


def is_request_id(text: str) -> bool:
    """Whether `text` has the form of one; the database refuses some texts outright (NUL)."""
    return re.fullmatch(_REQUEST_ID, text) is not None


def is_run_id(text: str) -> bool:
    return re.fullmatch(_RUN_ID, text) is not None


def is_approval_id(text: str) -> bool:
    return re.fullmatch(_APPROVAL_ID, text) is not None


def is_notice_id(text: str) -> bool:
    return re.fullmatch(_NOTICE_ID, text) is not None


def is_proposal_id(text: str) -> bool:
    return re.fullmatch(_PROPOSAL_ID, text) is not None


def is_operation_id(text: str) -> bool:
    return re.fullmatch(_OPERATION_ID, text) is not None


def _opaque(prefix: str) -> str:
    """128 random bits behind a readable prefix."""
    return f"{prefix}_{secrets.token_hex(16)}"


def new_request_id() -> str:
    return _opaque("act")


def new_run_id() -> str:
    return _opaque("run")


def new_approval_id() -> str:
    return _opaque("apr")


def new_decision_id() -> str:
    return _opaque("dec")


def new_operation_id() -> str:
    """Goes into the remote system's metadata; what an unknown outcome is looked up by."""
    return _opaque("op")


def new_notice_id() -> str:
    return _opaque("ntc")


def new_proposal_id() -> str:
    return _opaque("pol")


def new_gateway_key() -> str:
    """The idempotency key a remote system sees: minted once per call, never the caller's."""
    return _opaque("key")


def key_hash(idempotency_key_or_request_id: str) -> str:
    """Hex SHA-256, the only form in which an idempotency key is stored or shown."""
    return hashlib.sha256(idempotency_key_or_request_id.encode()).hexdigest()


def workflow_id(tenant: str, tool: str, hashed_key: str) -> str:
    """The Temporal workflow id of a call; it holds no personal data."""
    return f"call/{tenant}/{tool}/{hashed_key}"


def recheck_id(call_workflow_id: str) -> str:
    """The id of the workflow that looks again at what became of a call."""
    return _RECHECK + call_workflow_id


def notice_workflow_id(notice_id: str) -> str:
    """The id of the workflow that tells it."""
    return f"notice/{notice_id}"


def tenant_of(workflow_id: str) -> str | None:
    """Whose call has this workflow id, or is looked at again by it; None for one that is no call's."""
    call, _, rest = workflow_id.removeprefix(_RECHECK).partition("/")
    tenant, *others = rest.rsplit("/", 2)
    return tenant if call == "call" and len(others) == 2 and tenant else None
