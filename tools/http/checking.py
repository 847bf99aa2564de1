"""What is wrong with an `http.yaml`: names that mean nothing, and promises that it does not keep."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from pydantic import JsonValue

from policy.wording import parse_wording
from schemas.tools import Manifest
from tools.http.document import Confirmation, FieldText, Get, HttpDocument, Inspect, Write, schemas_of
from tools.http.read import COUNTING
from tools.http.references import name_of, names_in, names_in_path
from tools.http.write import FACTS, IDEMPOTENCY_KEY, OPERATION_ID, REMOTE_ID, facts_fields, presumption

# Who a run acts for is bound when it is opened.
BOUND = frozenset(
    ("tenant", "tenant_id", "customer", "customer_id", "actor", "actor_id", "user", "user_id", "run_id", "agent_id")
)
_CUSTOMER = "run.customer_id"
_WRITING = ("facts", "matters", "claim", "write", "outcomes", "confirmed", "inspect", "title", "undone_late")
_NEEDED = ("facts", "write", "outcomes", "confirmed", "inspect", "title")


def problems(document: HttpDocument, manifest: Manifest) -> list[str]:
    """A line for each: where, and what is wrong. A document with a problem is not to be used."""
    checks = [_general(document, manifest), _arguments(document, manifest), _result(document, manifest.redact)]
    if document.read is not None:
        checks.append(_reads(document, document.read))
    if document.write and document.confirmed and document.inspect:
        checks.append(_Effect(document, manifest, document.write, document.confirmed, document.inspect).problems())
    return [problem for check in checks for problem in check]


def _general(document: HttpDocument, manifest: Manifest) -> Iterator[str]:
    given = document.model_fields_set
    if manifest.writes:
        yield from (
            f"{name}: is missing; the manifest says that the tool writes" for name in _NEEDED if name not in given
        )
        if document.read is not None:
            yield "read: is of a tool that only reads; this one has facts"
        if manifest.writes_to != document.system:
            yield f"system: is {document.system}, the manifest's credential is that of {manifest.writes_to}"
    else:
        if document.read is None:
            yield "read: is missing; the manifest says that the tool only reads"
        yield from (
            f"{name}: is of a tool that writes, the manifest says that it only reads"
            for name in _WRITING
            if name in given
        )
    if document.system not in manifest.systems:
        yield f"system: is {document.system}, which the manifest's egress does not name"


def _arguments(document: HttpDocument, manifest: Manifest) -> Iterator[str]:
    for name, field in document.arguments.items():
        where = f"arguments.{name}"
        if name in BOUND:
            yield f"{where}: is bound by the run and no argument"
        if name in (IDEMPOTENCY_KEY, FACTS):
            yield f"{where}: is there by itself"
        if field.type == "integer" and (field.minimum is None or field.maximum is None):
            yield f"{where}: an integer needs minimum and maximum"
        if field.source is not None or field.presumed is not None or field.format == "age-minutes":
            yield f"{where}: from, presumed and age-minutes are of what is read"
        if not manifest.writes and (field.untrusted or field.amendable):
            yield f"{where}: untrusted and amendable are of a tool that writes"
    for name, field in document.result.items():
        if field.untrusted or field.amendable:
            yield f"result.{name}: untrusted and amendable are of arguments"


def _result(document: HttpDocument, redacted: Collection[str]) -> Iterator[str]:
    lists = [name for name, field in document.result.items() if field.type == "array"]
    if len(lists) > 1:
        yield f"result: has several lists: {', '.join(lists)}; a tool answers one question"
    if lists and document.write is not None:
        yield f"result.{lists[0]}: what a write answers has no list"
    yield from (
        f"result.{name}: is there by itself, beside a list" for name in COUNTING if lists and name in document.result
    )
    fields = document.result | (COUNTING if lists else {})
    arguments = {name: field for name, field in document.arguments.items() if name not in redacted}
    yield from _sentence("done", document.done, {**schemas_of(arguments, "args"), **schemas_of(fields, "result")})


def _reads(document: HttpDocument, read: Get) -> Iterator[str]:
    known = {*schemas_of(document.arguments, "args"), _CUSTOMER}
    yield from _get("read", read.get, read.query, known)
    yield from _bound("read", read)


def _get(where: str, template: str, query: Mapping[str, JsonValue], known: Collection[str]) -> Iterator[str]:
    named = [*((f"{where}.get", name) for name in names_in_path(template)), *names_in(query, f"{where}.query")]
    for place, name in named:
        if name not in known:
            yield _unknown(place, name, known)


def _bound(where: str, get: Get) -> Iterator[str]:
    named = {*names_in_path(get.get), *(name for _, name in names_in(get.query, ""))}
    if _CUSTOMER not in named and get.belongs_to is None and not get.public:
        yield f"{where}: reads anybody's; name {{{_CUSTOMER}}} in it, or say belongs_to, or public: true"


def _unknown(where: str, name: str, known: Collection[str]) -> str:
    root = name.split(".")[0]
    there = sorted(each for each in known if each.split(".")[0] == root)
    return f"{where}: {name} is not known; there is {', '.join(there) if there else f'nothing under {root} here'}"


def _sentence(where: str, text: str, known: Mapping[str, FieldText]) -> Iterator[str]:
    """A sentence of ours holds ids, states and numbers, no text that somebody wrote."""
    try:
        wording = parse_wording(text)
    except ValueError as error:
        yield f"{where}: {error}"
        return
    for place in wording.fields:
        name = ".".join(place.path)
        field = known.get(name)
        if field is None:
            yield _unknown(where, name, known)
        elif not field.is_plain:
            yield f"{where}: {name} is free text, which no sentence of ours repeats"
        elif place.money and (field.type != "integer" or "args.currency" not in known):
            yield f"{where}: {name} is no amount of minor units, or the tool has no argument currency"


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
        yield from self._sent()
        yield from self._keyed()
        yield from self._answered()
        yield from self._believed()
        yield from self._looked_up()
        yield from self._taken()
        shown = {
            name: field
            for name, field in self._known.items()
            if name.removeprefix("args.") not in self._manifest.redact
        }
        yield from _sentence("title", self._document.title or "", shown)

    def _facts_read(self) -> Iterator[str]:
        known = {*self._arguments, _CUSTOMER}
        for name, fact in self._document.facts.items():
            yield from _get(f"facts.{name}", fact.get, fact.query, known)
            yield from _bound(f"facts.{name}", fact)
            for field, text in fact.fields.items():
                if text.untrusted or text.amendable or text.presumed is not None:
                    yield f"facts.{name}.fields.{field}: untrusted, amendable and presumed are of other fields"
        for name in self._document.matters:
            field = self._facts.get(f"facts.{name}")
            if field is None:
                yield _unknown("matters", f"facts.{name}", self._facts)
            elif field.format in ("age-minutes", "date-time"):
                yield f"matters: {name} changes by itself, and every approval would be void"

    def _sent(self) -> Iterator[str]:
        sendable = {*self._known, OPERATION_ID, IDEMPOTENCY_KEY}
        named = [("write.path", name) for name in names_in_path(self._write.path)]
        for where, name in [*named, *names_in(self._write.body, "write.body")]:
            if name not in sendable:
                yield _unknown(where, name, sendable)
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
        equal = self._confirmed.equal
        known = {*self._known, OPERATION_ID}
        for where, value in equal.items():
            name = name_of(value)
            if name is not None and name not in known:
                yield _unknown(f"confirmed.equal.{where}", name, known)
            elif name in self._known and self._known[name].optional:
                yield f"confirmed.equal.{where}: {name} may be missing"
        confirmed = {name_of(value) for value in equal.values()}
        if OPERATION_ID not in confirmed:
            yield f"confirmed.equal: has no ${OPERATION_ID}; an answer about another operation would be believed"
        for _, name in names_in(self._write.body, ""):
            field = self._arguments.get(name)
            must = field is not None and (field.type == "integer" or name == "args.currency")
            if must and name not in confirmed:
                yield f"confirmed.equal: {name} is sent and not compared; nothing is believed on a 2xx alone"

    def _looked_up(self) -> Iterator[str]:
        known = {*self._known, OPERATION_ID}
        yield from _get("inspect", self._inspect.get, self._inspect.query, known)
        for name, field in self._document.result.items():
            value = presumption(self._confirmed, name, field)
            meant = name_of(value)
            if value is None and not field.optional:
                yield f"result.{name}: presumed is missing: what it is when a person says that the effect happened"
            elif meant is not None and meant not in {*known, REMOTE_ID}:
                yield _unknown(f"result.{name}.presumed", meant, {*known, REMOTE_ID})

    def _taken(self) -> Iterator[str]:
        claim = self._document.claim
        if claim is None:
            return
        yield from _sentence("claim.resource", claim.resource, self._known)
        for where, value, kind in (
            ("amount", claim.amount, "integer"),
            ("available", claim.available, "integer"),
            ("currency", claim.currency, "string"),
        ):
            name = name_of(value)
            field = None if name is None else self._known.get(name)
            if where == "amount" and not (name or "").startswith("args."):
                yield "claim.amount: is an argument, e.g. $args.amount_cents"
            elif name is not None and field is None:
                yield _unknown(f"claim.{where}", name, self._known)
            elif field is not None and (field.type != kind or field.optional):
                yield f"claim.{where}: {name} is not always {'a whole number' if kind == 'integer' else 'a text'}"
            elif name is None and where == "available":
                yield "claim.available: is a fact, e.g. $facts.account.balance_cents"
