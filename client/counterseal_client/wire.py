"""Requests as they are built and answers as they are read: pure, for either transport."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from counterseal_client.errors import Misuse, UnexpectedAnswer
from counterseal_client.models import Reply

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Request:
    """One exchange to be made: `pause` seconds from now, taking at most `seconds` in all."""

    method: str
    path: str
    headers: Mapping[str, str]
    seconds: float
    body: bytes | None = None
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """`sent`: whether some of the request may have arrived. `problem` is the name of a type, never an error's text."""

    problem: str
    sent: bool


def base_url(api: str) -> str:
    """Where the service is. Raises Misuse for what is no plain http or https URL."""
    try:
        parts = urlsplit(api)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
        usable = usable and not parts.query and not parts.fragment and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise Misuse("api must be an http or https URL without credentials, query and fragment")
    return api.rstrip("/")


def request(
    method: str,
    path: str,
    token: str,
    seconds: float,
    *,
    content: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Request:
    """A request with this bearer token and JSON body. Raises Misuse."""
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise Misuse("the token is no bearer token")
    sent = {**(headers or {}), "Authorization": f"Bearer {token}", "Accept": "application/json"}
    if content is None:
        return Request(method, path, sent, seconds)
    try:
        body = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise Misuse("the arguments cannot be written as JSON") from None
    return Request(method, path, {**sent, "Content-Type": "application/json"}, seconds, body)


def read(answer: Answer, model: type[M]) -> M | Reply:
    """The answer as `model`, or the refusal in its stead. Raises UnexpectedAnswer for what is neither."""
    try:
        return (model if answer.http_status < 300 else Reply).model_validate_json(answer.body)
    except ValidationError:
        raise UnexpectedAnswer(answer.http_status, "it has another shape") from None
