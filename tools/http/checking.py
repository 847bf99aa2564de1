"""What is wrong with an `http.yaml`: names that mean nothing, and promises that it does not keep."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from pydantic import JsonValue

from schemas.tools import Manifest
from tools.declared import checking
from tools.declared.checking import CUSTOMER, unknown
from tools.declared.document import Confirmation, schemas_of
from tools.declared.references import name_of, names_in
from tools.declared.write import IDEMPOTENCY_KEY, OPERATION_ID, facts_fields
from tools.http.document import Get, HttpDocument, Inspect, Write
from tools.http.paths import names_in_path

_WRITING = ("facts", "matters", "claim", "write", "outcomes", "confirmed", "inspect", "title", "undone_late")
_NEEDED = ("facts", "write", "outcomes", "confirmed", "inspect", "title")


def problems(document: HttpDocument, manifest: Manifest) -> list[str]:
    """A line for each: where, and what is wrong. A document with a problem is not to be used."""
    checks = [
        checking.kinds(document, manifest, "system", document.system, _NEEDED, _WRITING),
        checking.arguments(document, manifest),
        checking.result(document, manifest),
    ]
    if not document.result:
        checks.append(iter(("result: is missing",)))
    if document.read is not None:
        checks.append(_reads(document, document.read))
    if document.write and document.confirmed and document.inspect:
        checks.append(_Effect(document, manifest, document.write, document.confirmed, document.inspect).problems())
    return [problem for check in checks for problem in check]


def _reads(document: HttpDocument, read: Get) -> Iterator[str]:
    known = {*schemas_of(document.arguments, "args"), CUSTOMER}
    yield from _get("read", read.get, read.query, known)
    yield from _bound("read", read)


def _get(where: str, template: str, query: Mapping[str, JsonValue], known: Collection[str]) -> Iterator[str]:
    named = [*((f"{where}.get", name) for name in names_in_path(template)), *names_in(query, f"{where}.query")]
    for place, name in named:
        if name not in known:
            yield unknown(place, name, known)


def _bound(where: str, get: Get) -> Iterator[str]:
    named = {*names_in_path(get.get), *(name for _, name in names_in(get.query, ""))}
    if CUSTOMER not in named and get.belongs_to is None and not get.public:
        yield f"{where}: reads anybody's; name {{{CUSTOMER}}} in it, or say belongs_to, or public: true"


class _Effect:
    """The parts of a document that are one effect."""

    def __init__(
        self, document: HttpDocument, manifest: Manifest, write: Write, confirmed: Confirmation, look: Inspect
    ) -> None:
        self._document, self._manifest = document, manifest
        self._write, self._confirmed, self._inspect = write, confirmed, look
        self._arguments = schemas_of(document.arguments, "args")
        self._facts = schemas_of(facts_fields(document), "facts")
        self._known = {**self._arguments, **self._facts}

    def problems(self) -> Iterator[str]:
        yield from self._facts_read()
        yield from checking.matters(self._document, self._facts)
        yield from self._sent()
        yield from self._keyed()
        yield from self._answered()
        yield from self._believed()
        yield from _get("inspect", self._inspect.get, self._inspect.query, {*self._known, OPERATION_ID})
        yield from checking.presumed(self._document, self._confirmed, self._known)
        yield from checking.taken(self._document, self._known)
        yield from checking.title(self._document, self._manifest, self._known)

    def _facts_read(self) -> Iterator[str]:
        known = {*self._arguments, CUSTOMER}
        for name, fact in self._document.facts.items():
            yield from _get(f"facts.{name}", fact.get, fact.query, known)
            yield from _bound(f"facts.{name}", fact)
        yield from checking.fact_fields(self._document)

    def _sent(self) -> Iterator[str]:
        sendable = {*self._known, OPERATION_ID, IDEMPOTENCY_KEY}
        named = [("write.path", name) for name in names_in_path(self._write.path)]
        for where, name in [*named, *names_in(self._write.body, "write.body")]:
            if name not in sendable:
                yield unknown(where, name, sendable)
        if OPERATION_ID not in {name for _, name in names_in(self._write.body, "")}:
            yield f"write.body: has no ${OPERATION_ID}; without it a lost answer could not be looked up"

    def _keyed(self) -> Iterator[str]:
        if (self._manifest.idempotency == "key") != (self._write.key_hours is not None):
            yield "write.key_hours: belongs to the manifest's idempotency: key; it says how long the remote knows one"

    def _answered(self) -> Iterator[str]:
        outcomes = self._document.outcomes
        twice = [each for each, count in Counter((each.status, each.error) for each in outcomes).items() if count > 1]
        for status, error in twice:
            yield f"outcomes: {status} {error or ''}".rstrip() + " is listed twice"
        if not any(each.means == "confirmed" for each in outcomes):
            yield "outcomes: none of them is a confirmation"
        if self._document.error is None and any(each.error is not None for each in outcomes):
            yield "error: is missing; it says where in an answer the remote's error code stands"

    def _believed(self) -> Iterator[str]:
        yield from checking.believed(self._confirmed, self._write.body, self._arguments, self._known)
        if OPERATION_ID not in {name_of(value) for value in self._confirmed.equal.values()}:
            yield f"confirmed.equal: has no ${OPERATION_ID}; an answer about another operation would be believed"
