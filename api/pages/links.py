"""Addresses of what other systems show of a call. Pure."""

import re
from urllib.parse import quote

_TRACE_URL = re.compile(r"https?://[^\s{}]+\{trace_id\}[^\s{}]*")


def workflow_link(ui: str | None, namespace: str, workflow_id: str) -> str | None:
    """A call's workflow in Temporal's own web interface; None where nobody says where that is."""
    if not ui:
        return None
    return f"{ui.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"


def is_trace_url(text: str) -> bool:
    """Whether it is an address with one place for a trace's id."""
    return _TRACE_URL.fullmatch(text) is not None


def trace_link(template: str, trace_id: str | None) -> str | None:
    """A call's trace; None without one, or where nobody says where traces are."""
    return template.replace("{trace_id}", quote(trace_id, safe="")) if template and trace_id else None
