"""The one parser of JSON bodies: what is not plain, bounded, unambiguous JSON is refused before it is used."""

import re

from fastapi import Request
from pydantic import JsonValue

from api.problems import Refused, refuse
from schemas import strict_json
from schemas.codes import Code
from schemas.replies import Explanation

MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
_LARGEST = 2**53 - 1
_CONTENT_TYPE = re.compile(r"application/json(?:\s*;\s*charset=\"?utf-8\"?)?\s*", re.IGNORECASE)


async def json_object(request: Request) -> dict[str, JsonValue]:
    """The request's body. Raises Refused: 413 too large, 415 not JSON, 400 malformed, 422 not an object."""
    only_json(request)
    return parse_body(await read_body(request, MAX_BYTES))


def only_json(request: Request) -> None:
    """Raises Refused (415) where the body says that it is anything but plain JSON."""
    types = request.headers.getlist("content-type")
    if len(types) != 1 or not _CONTENT_TYPE.fullmatch(types[0]):
        raise _invalid(415, "the content type must be application/json, in UTF-8")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _invalid(415, "the body must not be compressed")


def parse_body(body: bytes) -> dict[str, JsonValue]:
    """The JSON object in `body`. Raises Refused and nothing else."""
    try:
        value = strict_json.loads(body)
    except strict_json.UnreadableError as problem:
        raise _invalid(400, f"the body cannot be read as JSON: {problem}") from None
    problem = _problem(value, MAX_DEPTH)
    if problem is not None:
        raise _invalid(400, problem)
    if not isinstance(value, dict):
        raise _invalid(422, "the body must be a JSON object")
    return value


async def read_body(request: Request, most: int) -> bytes:
    """The body; of more than `most` bytes no more is read, whatever Content-Length says. Raises Refused (413)."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise _too_large(most)
    # What was read of it, for the diagnostic of a refusal.
    body = request.state.body_read = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _problem(value: JsonValue, depth: int) -> str | None:
    """What makes a parsed value unusable: nesting, integers that others would round, text that is no Unicode."""
    if depth < 0:
        return f"the body is nested more than {MAX_DEPTH} deep"
    match value:
        case str():
            return _text_problem(value)
        case bool() | None | float():
            return None
        case int():
            return None if -_LARGEST <= value <= _LARGEST else "an integer is beyond 2^53 - 1, the largest allowed"
        case list():
            return next((p for each in value if (p := _problem(each, depth - 1))), None)
        case dict():
            found = (_text_problem(name) or _problem(each, depth - 1) for name, each in value.items())
            return next((p for p in found if p), None)


def _text_problem(text: str) -> str | None:
    if text.isascii():
        return "a string holds a NUL" if "\0" in text else None
    if any("\ud800" <= character <= "\udfff" or character == "\0" for character in text):
        return "a string holds a NUL or half a surrogate pair"
    return None


def _too_large(most: int) -> Refused:
    return _invalid(413, f"the body is larger than {most} bytes, the most allowed")


def _invalid(status: int, problem: str) -> Refused:
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": problem}), status=status)
