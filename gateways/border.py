"""Reading what a remote system says: the known fields strictly, whatever else it sends ignored."""

from datetime import datetime
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, StringConstraints, ValidationError
from wcwidth import iter_graphemes

from gateways.http import Answer, Answered, NotAnswered
from gateways.protocols import SystemUnavailable
from schemas.codes import Code
from schemas.effects import Exchange, Failed, Unknown
from schemas.replies import Explanation

NETWORK_RETRY_SECONDS = 30
# Why no credential was selected, so that nothing was sent.
_UNAVAILABLE = {"vault_locked": Code.VAULT_LOCKED, "no_credential": Code.INTERNAL_FAILURE}


class Border(BaseModel):
    """Part of a remote's message. Strict, since a remote that sends `"100"` for an amount is not understood."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


def _instant(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("not a text")
    instant = datetime.fromisoformat(value)
    if instant.tzinfo is None:
        raise ValueError("without a time zone")
    return instant


RemoteId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_-]{1,255}$")]
Amount = Annotated[int, Field(ge=0, le=10**12)]
Instant = Annotated[datetime, BeforeValidator(_instant)]

B = TypeVar("B", bound=Border)


def read(model: type[B], content: JsonValue) -> B | None:
    """The message, or None when it is not one."""
    try:
        return model.model_validate(content)
    except ValidationError:
        return None


def read_or_raise(model: type[B], answer: Answer, system: str) -> B:
    """The message of a 200. Raises SystemUnavailable for anything else."""
    message = read(model, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
    if message is None:
        raise SystemUnavailable(system, problem_of(answer))
    return message


def problem_of(answer: Answer) -> str:
    """Why an answer is of no use, in one word of ours."""
    if isinstance(answer, NotAnswered):
        return answer.exchange.problem or "transport"
    match answer.status:
        case 200:
            return "unreadable"
        case 401:
            return "auth_failed"
        case 403:
            return "forbidden"
        case 429:
            return "rate_limited"
        case status:
            return f"http_{status}"


def clipped(text: str, limit: int) -> str:
    """The longest beginning of `text` that is whole characters and at most `limit` UTF-16 code units long.

    A character is what a person takes for one (a grapheme cluster: https://unicode.org/reports/tr29/), so none loses
    its accent or half of its surrogates. UTF-16 is the strictest of the ways in which remotes count characters. Half a
    surrogate pair, which cannot be sent, becomes a question mark.
    """
    sendable = text.encode("utf-8", "replace").decode("utf-8")
    end = units = 0
    for character in iter_graphemes(sendable):
        units += len(character.encode("utf-16-le")) // 2
        if units > limit:
            break
        end += len(character)
    return sendable[:end]


def unknown(exchange: Exchange, problem: str | None = None) -> Unknown:
    """The effect may have happened; `problem` says why that is not known, unless the exchange already does."""
    return Unknown(exchange=exchange if problem is None else exchange.model_copy(update={"problem": problem}))


def unsent_or_unknown(answer: NotAnswered) -> Failed | Unknown:
    """A write without an answer: it failed only when nothing of it can have left."""
    if (unavailable := _UNAVAILABLE.get(answer.exchange.problem or "")) is not None:
        return failed(unavailable, answer.exchange)
    if answer.nothing_sent:
        return failed(Code.NETWORK_UNREACHABLE, answer.exchange, Explanation(retry_after_seconds=NETWORK_RETRY_SECONDS))
    return unknown(answer.exchange)


def failed(code: Code, exchange: Exchange, explanation: Explanation | None = None) -> Failed:
    said = explanation or Explanation()
    return Failed(code=code, exchange=exchange, retry_after_seconds=said.retry_after_seconds, explanation=said)


def rate_limited(answer: Answered, system: str) -> Failed:
    """The remote's own limit; nothing was done."""
    seconds = answer.retry_after_seconds
    repair = (
        "Nothing was done. Stop, and hand over to a person."
        if seconds is None
        else f"Nothing was done. After {seconds} seconds send a new call with a new idempotency_key, "
        "or hand over to a person."
    )
    explanation = Explanation(
        values={"because": f"the {system} system takes no more requests just now", "repair": repair},
        action=None if seconds is None else "retry_after_delay",
        retry_after_seconds=seconds,
    )
    return failed(Code.RATE_LIMITED, answer.exchange, explanation)
