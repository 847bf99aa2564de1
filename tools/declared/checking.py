"""What is wrong with a tool's document, whatever it speaks: names without a meaning, promises that it does not keep."""

from collections.abc import Collection, Iterator, Mapping

from pydantic import JsonValue

from policy.wording import parse_wording
from schemas.tools import Manifest
from tools.declared.document import Confirmation, Document, FieldText, schemas_of
from tools.declared.read import COUNTING
from tools.declared.references import name_of, names_in
from tools.declared.write import FACTS, IDEMPOTENCY_KEY, OPERATION_ID, REMOTE_ID, presumption

# Who a run acts for is bound when it is opened.
BOUND = frozenset(
    ("tenant", "tenant_id", "customer", "customer_id", "actor", "actor_id", "user", "user_id", "run_id", "agent_id")
)
CUSTOMER = "run.customer_id"


def kinds(
    document: Document, manifest: Manifest, where: str, system: str, needed: Collection[str], writing: Collection[str]
) -> Iterator[str]:
    """Whether the document is of the kind that the manifest says. `where` it names the `system`; `needed` are fields of
    one that writes, `writing` all that only such a one has."""
    given = document.model_fields_set
    if manifest.writes:
        yield from (
            f"{name}: is missing; the manifest says that the tool writes" for name in needed if name not in given
        )
        if "read" in given:
            yield "read: is of a tool that only reads; this one has facts"
        if manifest.writes_to != system:
            yield f"{where}: is {system}, the manifest's credential is that of {manifest.writes_to}"
    else:
        if "read" not in given:
            yield "read: is missing; the manifest says that the tool only reads"
        yield from (
            f"{name}: is of a tool that writes, the manifest says that it only reads"
            for name in writing
            if name in given
        )
    if system not in manifest.systems:
        yield f"{where}: is {system}, which the manifest's egress does not name"


def arguments(document: Document, manifest: Manifest) -> Iterator[str]:
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


def result(document: Document, manifest: Manifest) -> Iterator[str]:
    lists = [name for name, field in document.result.items() if field.type == "array"]
    if len(lists) > 1:
        yield f"result: has several lists: {', '.join(lists)}; a tool answers one question"
    if lists and manifest.writes:
        yield f"result.{lists[0]}: what a write answers has no list"
    yield from (
        f"result.{name}: is there by itself, beside a list" for name in COUNTING if lists and name in document.result
    )
    fields = document.result | (COUNTING if lists else {})
    shown = {name: field for name, field in document.arguments.items() if name not in manifest.redact}
    yield from sentence("done", document.done, {**schemas_of(shown, "args"), **schemas_of(fields, "result")})


def fact_fields(document: Document) -> Iterator[str]:
    for name, fields in document.fact_fields.items():
        for field, text in fields.items():
            if text.untrusted or text.amendable or text.presumed is not None:
                yield f"facts.{name}.fields.{field}: untrusted, amendable and presumed are of other fields"


def matters(document: Document, facts: Mapping[str, FieldText]) -> Iterator[str]:
    for name in document.matters:
        field = facts.get(f"facts.{name}")
        if field is None:
            yield unknown("matters", f"facts.{name}", facts)
        elif field.format in ("age-minutes", "date-time"):
            yield f"matters: {name} changes by itself, and every approval would be void"


def believed(
    confirmed: Confirmation, sent: JsonValue, arguments: Mapping[str, FieldText], known: Mapping[str, FieldText]
) -> Iterator[str]:
    """`sent` is what of the request says what is to be done."""
    names = {*known, OPERATION_ID}
    for where, value in confirmed.equal.items():
        name = name_of(value)
        if name is not None and name not in names:
            yield unknown(f"confirmed.equal.{where}", name, names)
        elif name is not None and name in known and known[name].optional:
            yield f"confirmed.equal.{where}: {name} may be missing"
    compared = {name_of(value) for value in confirmed.equal.values()}
    for _, name in names_in(sent, ""):
        field = arguments.get(name)
        must = field is not None and (field.type == "integer" or name == "args.currency")
        if must and name not in compared:
            yield f"confirmed.equal: {name} is sent and not compared; nothing is believed on a 2xx alone"


def presumed(document: Document, confirmed: Confirmation, known: Collection[str]) -> Iterator[str]:
    names = {*known, OPERATION_ID, REMOTE_ID}
    for name, field in document.result.items():
        value = presumption(confirmed, name, field)
        meant = name_of(value)
        if value is None and not field.optional:
            yield f"result.{name}: presumed is missing: what it is when a person says that the effect happened"
        elif meant is not None and meant not in names:
            yield unknown(f"result.{name}.presumed", meant, names)


def taken(document: Document, known: Mapping[str, FieldText]) -> Iterator[str]:
    claim = document.claim
    if claim is None:
        return
    yield from sentence("claim.resource", claim.resource, known)
    for where, value, kind in (
        ("amount", claim.amount, "integer"),
        ("available", claim.available, "integer"),
        ("currency", claim.currency, "string"),
    ):
        name = name_of(value)
        field = None if name is None else known.get(name)
        if where == "amount" and not (name or "").startswith("args."):
            yield "claim.amount: is an argument, e.g. $args.amount_cents"
        elif name is not None and field is None:
            yield unknown(f"claim.{where}", name, known)
        elif field is not None and (field.type != kind or field.optional):
            yield f"claim.{where}: {name} is not always {'a whole number' if kind == 'integer' else 'a text'}"
        elif name is None and where == "available":
            yield "claim.available: is a fact, e.g. $facts.account.balance_cents"


def title(document: Document, manifest: Manifest, known: Mapping[str, FieldText]) -> Iterator[str]:
    shown = {name: field for name, field in known.items() if name.removeprefix("args.") not in manifest.redact}
    yield from sentence("title", document.title or "", shown)


def sentence(where: str, text: str, known: Mapping[str, FieldText]) -> Iterator[str]:
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
            yield unknown(where, name, known)
        elif not field.is_plain:
            yield f"{where}: {name} is free text, which no sentence of ours repeats"
        elif place.money and (field.type != "integer" or "args.currency" not in known):
            yield f"{where}: {name} is no amount of minor units, or the tool has no argument currency"


def unknown(where: str, name: str, known: Collection[str]) -> str:
    root = name.split(".")[0]
    there = sorted(each for each in known if each.split(".")[0] == root)
    return f"{where}: {name} is not known; there is {', '.join(there) if there else f'nothing under {root} here'}"
