"""Reads from a remote system: what a GET of a declared tool answers, when it is the customer's own."""

from collections.abc import Mapping

from pydantic import JsonValue

from gateways.border import problem_of
from gateways.http import Answered, Remote
from gateways.protocols import SystemUnavailable
from policy.values import look_up
from tools.declared.absence import no_such
from tools.declared.references import at, error_of, names_in
from tools.http.document import Get
from tools.http.paths import NotPlainError, names_in_path, path_of, query_of
from tools.protocol import Refusal


async def fetch(
    remote: Remote, get: Get, values: Mapping[str, object], *, error: str | None, what: str
) -> JsonValue | Refusal:
    """The answer of a 200. A refusal where there is no such record or it is another customer's: which of both it is
    cannot be told from it. `what` is our word for the record. Raises SystemUnavailable."""
    try:
        template, path = path_of(get.get, values)
    except NotPlainError:
        return _none(get, what)
    answer = await remote.exchange("GET", template, path=path, query=query_of(get.query, values))
    if not isinstance(answer, Answered):
        raise SystemUnavailable(remote.system, problem_of(answer))
    if answer.status != 200:
        code = error_of(answer.json, error)
        if any((each.status, each.error) == (answer.status, code) for each in get.missing):
            return _none(get, what)
        raise SystemUnavailable(remote.system, problem_of(answer))
    if not isinstance(answer.json, dict):
        raise SystemUnavailable(remote.system, "unreadable")
    if get.belongs_to is not None and at(answer.json, get.belongs_to) != look_up(values, ("run", "customer_id")):
        return _none(get, what)
    return answer.json


def _none(get: Get, what: str) -> Refusal:
    return no_such(what, [*names_in_path(get.get), *(name for _, name in names_in(get.query, ""))])
