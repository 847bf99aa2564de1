"""The closed registry of reply codes: HTTP status, action, whether the same call may be sent again, our sentence."""

from enum import StrEnum
from typing import Literal, NamedTuple

Status = Literal[
    "executed",
    "pending_approval",
    "refused",
    "denied",
    "expired",
    "cancelled",
    "failed",
    "outcome_unknown",
    "in_progress",
]
Action = Literal[
    "none",
    "wait",
    "retry_after_delay",
    "repair_input",
    "request_approval",
    "use_other_tool",
    "stop_and_report",
    "inspect_outcome",
]


class Code(StrEnum):
    OK = "OK"
    NO_RESULTS = "NO_RESULTS"
    PENDING_APPROVAL = "PENDING_APPROVAL"
    IN_PROGRESS = "IN_PROGRESS"
    INVALID_INPUT = "INVALID_INPUT"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    TOOL_NOT_AVAILABLE = "TOOL_NOT_AVAILABLE"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    ORDER_NOT_FOUND = "ORDER_NOT_FOUND"
    REFUND_EXCEEDS_PAID = "REFUND_EXCEEDS_PAID"
    CURRENCY_MISMATCH = "CURRENCY_MISMATCH"
    NOT_REFUNDABLE = "NOT_REFUNDABLE"
    INVALID_STATE = "INVALID_STATE"
    RATE_LIMITED = "RATE_LIMITED"
    CAPABILITY_DISABLED = "CAPABILITY_DISABLED"
    VAULT_LOCKED = "VAULT_LOCKED"
    UNSAFE_CHAIN = "UNSAFE_CHAIN"
    USER_DENIED = "USER_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_VOID = "APPROVAL_VOID"
    CANCELLED = "CANCELLED"
    AUTH_FAILED = "AUTH_FAILED"
    REMOTE_FORBIDDEN = "REMOTE_FORBIDDEN"
    REMOTE_REFUSED = "REMOTE_REFUSED"
    NETWORK_UNREACHABLE = "NETWORK_UNREACHABLE"
    TEMPORARY_FAILURE = "TEMPORARY_FAILURE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    INTERNAL_FAILURE = "INTERNAL_FAILURE"


class CodeSpec(NamedTuple):
    """What a code means to its caller. `message` is a format string over named values; every value must be given."""

    status: Status
    action: Action
    http_status: int
    retryable: bool
    title: str
    message: str
    also: tuple[int, ...] = ()
    """Other HTTP statuses that it is sent with, for requests that never became a call."""


_NO_REPEAT = "Do not send it again."

REGISTRY: dict[Code, CodeSpec] = {
    Code.OK: CodeSpec("executed", "none", 200, False, "Executed", "Done: {done}."),
    Code.NO_RESULTS: CodeSpec(
        "executed",
        "none",
        200,
        False,
        "Nothing found",
        "The look-up worked and found nothing: {done}. Go on with that; looking again will not change it.",
    ),
    Code.PENDING_APPROVAL: CodeSpec(
        "pending_approval",
        "wait",
        202,
        False,
        "Waiting for a person",
        "A person must approve this before it happens; the request is waiting until {expires_at}. "
        "Do not send it again. Tell the customer that the request was submitted for review.",
    ),
    Code.IN_PROGRESS: CodeSpec(
        "in_progress",
        "wait",
        202,
        False,
        "In progress",
        "The call was accepted and is being worked on. Ask for its progress with the request_id; do not send another.",
    ),
    Code.INVALID_INPUT: CodeSpec(
        "refused",
        "repair_input",
        422,
        False,
        "Invalid input",
        "The call was not accepted: {problem}. Nothing was done. "
        "Correct it and send it again; unchanged it is refused again.",
        also=(400, 404, 405, 413, 415),
    ),
    Code.UNAUTHENTICATED: CodeSpec(
        "refused",
        "stop_and_report",
        401,
        False,
        "Not authenticated",
        "The bearer token is missing, unknown, expired or revoked; nothing was done. "
        + _NO_REPEAT
        + " Stop and report this to the operator of the agent.",
    ),
    Code.FORBIDDEN: CodeSpec(
        "refused",
        "stop_and_report",
        403,
        False,
        "Not allowed",
        "This token may not do that; nothing was done. "
        + _NO_REPEAT
        + " Stop and report this to the operator of the agent.",
    ),
    Code.TOOL_NOT_AVAILABLE: CodeSpec(
        "refused",
        "stop_and_report",
        403,
        False,
        "Tool not available",
        "That tool is not available here; nothing was done. Do not call it again: "
        "use one of the tools that are listed for the run, or stop and report.",
    ),
    Code.IDEMPOTENCY_CONFLICT: CodeSpec(
        "refused",
        "repair_input",
        409,
        False,
        "Idempotency key already used",
        "This idempotency_key was already used for another call; that call is unchanged, and this one was not begun. "
        "Do not send it again with this key: use a new key for a new call, or repeat the first call exactly.",
    ),
    Code.ORDER_NOT_FOUND: CodeSpec(
        "refused",
        "repair_input",
        422,
        False,
        "Order not found",
        "There is no order {order_id} for this customer; nothing was done. Do not send this order id again: "
        "check it, or look the orders up with lookup_orders, and send a new call, with a new idempotency_key where "
        "the tool takes one.",
    ),
    Code.REFUND_EXCEEDS_PAID: CodeSpec(
        "refused",
        "repair_input",
        422,
        False,
        "More than can be refunded",
        "Order {order_id} was paid {paid_cents}; you requested {requested_cents}; "
        "at most {max_amount_cents} can be refunded. {repair}",
    ),
    Code.CURRENCY_MISMATCH: CodeSpec(
        "refused",
        "repair_input",
        422,
        False,
        "Other currency",
        "Order {order_id} was paid in {currency}; you sent {requested_currency}. Nothing was done. "
        "Send a new call with currency {currency}, the amount in that currency, and a new idempotency_key.",
    ),
    Code.NOT_REFUNDABLE: CodeSpec(
        "refused",
        "stop_and_report",
        422,
        False,
        "Not refundable",
        "Order {order_id} cannot be refunded: {because}. " + _NO_REPEAT,
    ),
    Code.INVALID_STATE: CodeSpec(
        "refused",
        "stop_and_report",
        422,
        False,
        "State does not allow it",
        "The state of the record does not allow this: {because}. " + _NO_REPEAT,
    ),
    Code.RATE_LIMITED: CodeSpec(
        "refused", "stop_and_report", 429, False, "Limit reached", "A limit was reached: {because}. {repair}"
    ),
    Code.CAPABILITY_DISABLED: CodeSpec(
        "refused",
        "stop_and_report",
        503,
        False,
        "Switched off",
        "This capability is switched off until an operator turns it on; nothing was done. "
        + _NO_REPEAT
        + " Hand over to a person.",
    ),
    Code.VAULT_LOCKED: CodeSpec(
        "refused",
        "stop_and_report",
        503,
        False,
        "Vault locked",
        "The credential vault is locked, so nothing was sent. " + _NO_REPEAT + " Ask a person to unlock it.",
    ),
    Code.UNSAFE_CHAIN: CodeSpec(
        "refused",
        "stop_and_report",
        422,
        False,
        "Unsafe chain",
        "What this run has already touched does not allow this call; nothing was done. "
        + _NO_REPEAT
        + " Hand over to a person.",
    ),
    Code.USER_DENIED: CodeSpec(
        "denied",
        "stop_and_report",
        409,
        False,
        "Denied by a person",
        "A person looked at this and denied it; nothing was done. " + _NO_REPEAT + " Hand over to a person.",
    ),
    Code.APPROVAL_EXPIRED: CodeSpec(
        "expired",
        "stop_and_report",
        409,
        False,
        "Nobody decided in time",
        "Nobody decided before the deadline, so nothing was done. " + _NO_REPEAT + " Hand over to a person.",
    ),
    Code.APPROVAL_VOID: CodeSpec(
        "refused",
        "stop_and_report",
        409,
        False,
        "Approval no longer holds",
        "What the decision rested on has changed ({because}); nothing was done. "
        + _NO_REPEAT
        + " Hand over to a person.",
    ),
    Code.CANCELLED: CodeSpec(
        "cancelled",
        "none",
        409,
        False,
        "Cancelled",
        "The call was withdrawn before it was decided; nothing was done, and nothing more will be. "
        "If it is wanted after all, send a new call with a new idempotency_key.",
    ),
    Code.AUTH_FAILED: CodeSpec(
        "failed",
        "stop_and_report",
        502,
        False,
        "Remote refused our credential",
        "The remote system did not accept the service's credential; nothing was done. "
        + _NO_REPEAT
        + " Stop and report the request_id to an operator.",
    ),
    Code.REMOTE_FORBIDDEN: CodeSpec(
        "failed",
        "stop_and_report",
        502,
        False,
        "Remote forbids it",
        "The remote system does not allow this action; nothing was done. " + _NO_REPEAT + " Hand over to a person.",
    ),
    Code.REMOTE_REFUSED: CodeSpec(
        "failed",
        "stop_and_report",
        502,
        False,
        "Remote refused it",
        "The remote system refused this action; nothing was done. " + _NO_REPEAT + " Hand over to a person.",
    ),
    Code.NETWORK_UNREACHABLE: CodeSpec(
        "failed",
        "retry_after_delay",
        503,
        False,
        "Remote not reached",
        "The remote system could not be reached, so nothing was sent. "
        "After the delay, send a new call with a new idempotency_key, or hand over to a person.",
    ),
    Code.TEMPORARY_FAILURE: CodeSpec(
        "failed",
        "retry_after_delay",
        503,
        True,
        "Try again shortly",
        "The service could not take the call just now. "
        "Send the same call with the same idempotency_key after the delay; it cannot happen twice.",
    ),
    Code.OUTCOME_UNKNOWN: CodeSpec(
        "outcome_unknown",
        "inspect_outcome",
        202,
        False,
        "Outcome not known yet",
        "The remote system's answer was lost: the {operation} may or may not have happened; it is being looked up. "
        "Do not send it again; ask for its progress with the request_id.",
    ),
    Code.INTERNAL_FAILURE: CodeSpec(
        "failed",
        "stop_and_report",
        500,
        False,
        "Failure of the service",
        "The service failed on its own account. " + _NO_REPEAT + " Stop, and report the request_id to an operator.",
    ),
}
