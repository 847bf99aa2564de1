"""Addresses of what other systems show of a call. Pure."""

import re
from urllib.parse import quote, urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_TRACE_URL = re.compile(r"https?://[^\s{}]+\{trace_id\}[^\s{}]*")


def workflow_link(ui: str | None, namespace: str, workflow_id: str) -> str | None:
    """A call's workflow in Temporal's own web interface; None where nobody says where that is."""
    if not ui:
        return None
    return f"{ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"


def origin_of(url: str | None) -> str | None:
    """What browsers send as the origin of pages there (https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin);
    None for what is no web address."""
    try:
        parts = urlsplit(url or "")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        return None
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{named}" + (f":{port}" if port not in (None, _DEFAULT_PORTS[parts.scheme]) else "")


def is_trace_url(text: str) -> bool:
    """Whether it is an address with one place for a trace's id."""
    return _TRACE_URL.fullmatch(text) is not None


def trace_link(template: str, trace_id: str | None) -> str | None:
    """A call's trace; None without one, or where nobody says where traces are."""
    return template.replace("{trace_id}", quote(trace_id, safe="")) if template and trace_id else None
