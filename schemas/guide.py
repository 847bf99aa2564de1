"""What each code means, what to do next, and an example: for its page and for the API's description."""

import json
from typing import NamedTuple

from pydantic import JsonValue

from schemas.codes import REGISTRY, Code
from schemas.replies import Explanation, Reply, problem_document, reply_for

EXAMPLE_ID = "act_0123456789abcdef0123456789abcdef"
_ORDER: dict[str, str | int] = {"order_id": "ord_8f2b91a04c7d"}


class Guide(NamedTuple):
    """`meaning`: when it is sent. `next`: what an agent does then. `example`: what one such reply says."""

    meaning: str
    next: str
    example: Explanation = Explanation()
    result: dict[str, JsonValue] | None = None


GUIDE: dict[Code, Guide] = {
    Code.OK: Guide(
        "The call was executed, and the remote system's answer was checked.",
        "Go on with `result`. The same idempotency_key with the same arguments answers with this call again.",
        Explanation(values={"done": "refunded 49.99 USD of order ord_8f2b91a04c7d"}),
        {"refund_id": "re_example", "amount_cents": 4999, "currency": "USD"},
    ),
    Code.NO_RESULTS: Guide(
        "A look-up worked and there is nothing that fits. An answer, not an error.",
        "Go on with the knowledge that there is nothing; looking again does not change it.",
        Explanation(values={"done": "no orders of this customer"}),
        {"orders": [], "count": 0, "truncated": False},
    ),
    Code.PENDING_APPROVAL: Guide(
        "The policy holds the call until a person approves or denies it. Nothing has happened yet.",
        "Tell the customer that it was submitted for review. Ask for its progress with"
        " `GET /v1/tool-calls/{request_id}`, or end the turn. `POST /v1/tool-calls/{request_id}/cancel` withdraws"
        " it. Never send it a second time.",
        Explanation(values={"expires_at": "2026-11-30T09:00:00Z"}, expires_at="2026-11-30T09:00:00Z"),
    ),
    Code.IN_PROGRESS: Guide(
        "The call was accepted, and had not settled when the wait was over.",
        "Ask for its progress with `GET /v1/tool-calls/{request_id}?wait_seconds=20`. Do not send another call for it.",
    ),
    Code.INVALID_INPUT: Guide(
        "The request is not what the route or the tool's input_schema asks for. It never became a call: nothing was"
        " done, and its idempotency_key is still unused. HTTP says what kind it is: 400 no strict JSON, 404 no such"
        " route or call, 405 not with this method, 413 too large, 415 not JSON, 422 a field that does not fit.",
        "Correct what the message says and `invalid_fields` names, and send it again. When `attempts_remaining` is"
        " there, read the tool's input_schema before the next try.",
        Explanation(
            values={"problem": "amount_cents must be an integer from 100 to 50000"}, invalid_fields=("amount_cents",)
        ),
    ),
    Code.UNAUTHENTICATED: Guide(
        "There is no bearer token in the Authorization header, or it is unknown, expired or revoked, or there is more"
        " than one. Tokens in the query or in the body are never read.",
        "Stop. Only whoever runs the agent can open a new run or issue a token.",
    ),
    Code.FORBIDDEN: Guide(
        "The token is good, and not of the kind that this route takes.",
        "Stop, and report it: `allowed` says which kind of token belongs here.",
        Explanation(allowed={"token_kind": "run"}),
    ),
    Code.TOOL_NOT_AVAILABLE: Guide(
        "The tool does not exist, is internal, is not one of this run's, or the policy does not offer it now. These are"
        " not told apart.",
        "Use one of the tools of `GET /v1/tools` (`allowed.tools` names them where it is given), or stop and report.",
        Explanation(allowed={"tools": "issue_refund, lookup_orders"}),
    ),
    Code.IDEMPOTENCY_CONFLICT: Guide(
        "The idempotency_key belongs to another call: other arguments, or another agent's or customer's. That call is"
        " untouched, and this one was not begun.",
        "For a new call use a new idempotency_key. To learn about the first call, repeat it exactly, or ask with its"
        " request_id.",
        Explanation(invalid_fields=("idempotency_key",)),
    ),
    Code.ORDER_NOT_FOUND: Guide(
        "The run's customer has no such order. An order of another customer is answered in the same way.",
        "Check the order id, or look the customer's orders up; then send a new call.",
        Explanation(values=_ORDER),
    ),
    Code.REFUND_EXCEEDS_PAID: Guide(
        "More was asked for than the payment has left: captured, less what was refunded, less what other calls have"
        " reserved.",
        "Send a new call with at most `allowed.max_amount_cents` and a new idempotency_key, if that is what is wanted.",
        Explanation(
            values=_ORDER
            | {
                "paid_cents": 45900,
                "requested_cents": 50000,
                "max_amount_cents": 40900,
                "repair": "Send again with amount_cents <= 40900 and a new idempotency_key, or hand over to a person.",
            },
            allowed={"max_amount_cents": 40900},
            invalid_fields=("amount_cents",),
        ),
    ),
    Code.CURRENCY_MISMATCH: Guide(
        "The order was paid in another currency than the call names.",
        "Send a new call in `allowed.currency`. Do not convert the amount yourself: ask what is to be refunded.",
        Explanation(
            values=_ORDER | {"currency": "USD", "requested_currency": "EUR"},
            allowed={"currency": "USD"},
            invalid_fields=("currency",),
        ),
    ),
    Code.NOT_REFUNDABLE: Guide(
        "The order or its payment is in a state in which nothing can be refunded: too new, disputed, not settled, not"
        " paid through a gateway.",
        "Use the tool in `use_tool` where there is one; otherwise hand over to a person.",
        Explanation(values=_ORDER | {"because": "its payment is disputed"}),
    ),
    Code.INVALID_STATE: Guide(
        "The record is in a state that does not allow this tool, for example an order that was already shipped.",
        "Use the tool in `use_tool` where there is one; otherwise hand over to a person.",
        Explanation(values=_ORDER | {"because": "it was already shipped"}),
    ),
    Code.RATE_LIMITED: Guide(
        "A limit was reached: one of the policy's, the remote system's, or that on refused requests (failed"
        " authentications and invalid calls). Nothing was done. A limit on refused requests never stands in the way of"
        " a good request.",
        "Wait `retry_after_seconds` where it is given and the action is `retry_after_delay`; otherwise end the turn and"
        " hand over to a person. Trying faster does not help.",
        Explanation(
            values={
                "because": "5 refunds an hour",
                "repair": "Try a new call with a new idempotency_key after 1200 seconds, or hand over to a person.",
            },
            action="retry_after_delay",
            retry_after_seconds=1200,
            attempts_remaining=0,
        ),
    ),
    Code.CAPABILITY_DISABLED: Guide(
        "An operator has switched off this tool, agent, tenant or everything, or a breaker has, since there was too"
        " much of it. Nothing was done.",
        "Stop, and hand over to a person. Waiting and trying again is not yours to decide.",
    ),
    Code.VAULT_LOCKED: Guide(
        "The credentials of the remote systems are locked away. Nothing was sent.",
        "Stop, and ask a person to unlock the vault.",
    ),
    Code.UNSAFE_CHAIN: Guide(
        "The run has already touched private data or untrusted content, so that this call would open a way out for it.",
        "Stop, and hand over to a person. Another tool for the same end is refused too.",
    ),
    Code.USER_DENIED: Guide(
        "A person looked at the exact action and denied it. Nothing was done.",
        "Tell the customer that it was not approved. Do not ask for it again in another form.",
    ),
    Code.APPROVAL_EXPIRED: Guide(
        "Nobody decided before the deadline; that never approves anything. Nothing was done.",
        "Hand over to a person.",
    ),
    Code.APPROVAL_VOID: Guide(
        "Just before it was to be executed, the facts or the policy were no longer those of the decision. Nothing was"
        " done.",
        "Hand over to a person: what the agent knows about the order is out of date.",
        Explanation(values={"because": "the order was refunded in the meantime"}),
    ),
    Code.CANCELLED: Guide(
        "The call was withdrawn while it waited for a person. Nothing was done.",
        "Nothing. If it is wanted after all, send a new call with a new idempotency_key.",
    ),
    Code.AUTH_FAILED: Guide(
        "The remote system did not accept the service's own credential. Nothing was done.",
        "Stop, and report the request_id: an operator has to look at the credential.",
    ),
    Code.REMOTE_FORBIDDEN: Guide(
        "The remote system does not allow the service this action. Nothing was done.",
        "Hand over to a person.",
    ),
    Code.REMOTE_REFUSED: Guide(
        "The remote system documents this answer as: not executed. Nothing was done.",
        "Hand over to a person.",
    ),
    Code.NETWORK_UNREACHABLE: Guide(
        "The remote system could not be reached, and nothing of the action was sent.",
        "After `retry_after_seconds` send a new call with a new idempotency_key, once; then hand over to a person.",
        Explanation(retry_after_seconds=5),
    ),
    Code.TEMPORARY_FAILURE: Guide(
        "The service could not take or look up the call just now.",
        "Send exactly the same call with the same idempotency_key after `retry_after_seconds`; it cannot happen twice.",
        Explanation(retry_after_seconds=2),
    ),
    Code.OUTCOME_UNKNOWN: Guide(
        "The action was sent and its answer was lost, so it may or may not have happened. The service looks it up by"
        " its own operation id until it knows; it does not send it again.",
        "Never send it again, and promise nothing to the customer. Ask for its progress with"
        " `GET /v1/tool-calls/{request_id}`.",
        Explanation(values={"operation": "refund"}, operation="refund"),
    ),
    Code.INTERNAL_FAILURE: Guide(
        "The service failed in a way that it did not foresee.",
        "Stop, and report the request_id to an operator, who finds the record of what went wrong by it.",
    ),
}


def example(code: Code) -> Reply:
    """One reply with this code."""
    guide = GUIDE[code]
    return reply_for(code, EXAMPLE_ID, guide.example, result=guide.result)


def example_document(code: Code, base: str) -> dict[str, JsonValue]:
    """What a caller receives with this code: the reply, or for a refusal the problem document around it."""
    reply, spec = example(code), REGISTRY[code]
    if spec.http_status < 400:
        return reply.model_dump(mode="json", exclude_none=True)
    return problem_document(reply, spec.http_status, base)


def page(code: Code, base: str) -> str:
    """The page about a code, as Markdown. `base` is the service's public URL, for the example."""
    spec, guide = REGISTRY[code], GUIDE[code]
    statuses = ", ".join(str(status) for status in (spec.http_status, *spec.also))
    shown = json.dumps(example_document(code, base), indent=2, ensure_ascii=False)
    return f"""# {code}

{spec.title}. {guide.meaning}

| | |
| --- | --- |
| status | `{spec.status}` |
| action | `{spec.action}` |
| HTTP status | {statuses} |
| the same call may be sent again as it is | {"yes" if spec.retryable else "no"} |

## What to do next

{guide.next}

## The sentence

> {spec.message}

## Example

```json
{shown}
```
"""
