"""Templates to responses."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from api.pages.text import span, time_tag, took, visible, words
from ledger.principals import Person

_API = Path(__file__).parent.parent
STATIC = _API / "static"
OPERATOR = "operator"


def _ago(at: datetime, now: datetime) -> Markup:
    return time_tag(at, f"{span(now - at)} ago")


def _until(at: datetime, now: datetime) -> Markup:
    return time_tag(at, f"in {span(at - now)}" if at > now else f"{span(now - at)} ago")


def _waited(at: datetime, now: datetime) -> Markup:
    return time_tag(at, span(now - at))


def _duration(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


_FILTERS: dict[str, Any] = {
    "visible": visible,
    "words": words,
    "absolute": time_tag,
    "ago": _ago,
    "until": _until,
    "waited": _waited,
    "duration": _duration,
    "took": took,
}


@cache
def static(name: str) -> str:
    """The address of a static file, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]}"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_API / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals["static"] = static
    return environment


_ENVIRONMENT = _environment()


def render(
    request: Request, template: str, *, person: Person | None, status: int = HTTPStatus.OK, **view: object
) -> HTMLResponse:
    """The page. `person` is who is signed in; the navigation shows only what they may see."""
    context = {
        "now": datetime.now(UTC),
        "person": person,
        "operator": person is not None and OPERATOR in person.roles,
        "path": request.url.path,
    }
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(context | view), status)
