"""What is wrong with an `mcp.yaml`: names that mean nothing, and promises that it does not keep."""

from collections import Counter
from collections.abc import Collection, Iterator

from schemas.tools import Manifest
from tools.declared import checking
from tools.declared.checking import CUSTOMER, unknown
from tools.declared.document import Confirmation, FieldText, schemas_of
from tools.declared.references import name_of, names_in
from tools.declared.write import IDEMPOTENCY_KEY, OPERATION_ID
from tools.mcp.document import CONTENT, Call, McpDocument, Read, Write
from tools.mcp.write import RUN, mcp_facts_fields

_WRITING = ("facts", "matters", "claim", "write", "outcomes", "confirmed", "inspect", "title", "undone_late")
_NEEDED = ("write", "confirmed", "title")


def problems(document: McpDocument, manifest: Manifest) -> list[str]:
    """A line for each: where, and what is wrong. A document with a problem is not to be used."""
    checks = [
        checking.kinds(document, manifest, "upstream", document.upstream, _NEEDED, _WRITING),
        checking.arguments(document, manifest),
        checking.result(document, manifest),
        _pins(document),
        _plain(document),
    ]
    if document.read is not None:
        checks.append(_reads(document, manifest, document.read))
    if document.write and document.confirmed:
        checks.append(_writes(document, manifest, document.write, document.confirmed))
    return [problem for check in checks for problem in check]


def _pins(document: McpDocument) -> Iterator[str]:
    for where, call in document.calls.items():
        if document.pins[call.tool] != call.pin:
            yield f"{where}.pin: is another one than that of {call.tool} elsewhere in the file"


def _plain(document: McpDocument) -> Iterator[str]:
    """A field of its own holds what cannot be an order to a model; all else is handed on as a stranger's words."""
    for where, fields in (("result", document.result), *((f"facts.{n}", f) for n, f in document.fact_fields.items())):
        for name, field in fields.items():
            yield from _free(f"{where}.{name}", field)


def _free(where: str, field: FieldText) -> Iterator[str]:
    if field.type == "string" and not field.is_plain:
        yield (
            f"{where}: is free text; an upstream's belongs into `texts`, and a field of its own has an enum, a pattern "
            "or a format"
        )
    if field.items is not None:
        yield from _free(f"{where}.items", field.items)
    for name, below in (field.properties or {}).items():
        yield from _free(f"{where}.{name}", below)


def _reads(document: McpDocument, manifest: Manifest, read: Read) -> Iterator[str]:
    if "read_untrusted" not in manifest.capability_classes:
        yield "read: is of an upstream; the manifest's capability_classes need read_untrusted"
    known = {*schemas_of(document.arguments, "args"), CUSTOMER}
    yield from _sends("read", read, known)
    yield from _bound("read", read)
    if not document.result and not document.texts:
        yield "result: is missing, and so is texts: the tool answers nothing"
    for number, each in enumerate(document.texts):
        if each.each is None and each.text == CONTENT and (each.ref or each.title):
            yield f"texts.{number}: the texts of an answer have no ref and no title of their own"
    if document.result.keys() & {"untrusted", "cut", "left_out"}:
        yield "result: untrusted, cut and left_out are there by themselves"


def _sends(where: str, call: Call, known: Collection[str]) -> Iterator[str]:
    named = [*names_in(call.send or {}, f"{where}.send"), *names_in(call.meta, f"{where}.meta")]
    yield from (unknown(place, name, known) for place, name in named if name not in known)


def _bound(where: str, read: Read) -> Iterator[str]:
    named = {name for _, name in names_in(read.send or {}, "")}
    if CUSTOMER not in named and read.belongs_to is None and not read.public:
        yield f"{where}: reads anybody's; send ${CUSTOMER}, or say belongs_to, or public: true"


def _writes(document: McpDocument, manifest: Manifest, write: Write, confirmed: Confirmation) -> Iterator[str]:
    if document.texts:
        yield "texts: are of a tool that reads"
    arguments = schemas_of(document.arguments, "args")
    facts = schemas_of(mcp_facts_fields(document), "facts")
    known = {**arguments, **facts}
    if RUN in document.facts:
        yield f"facts.{RUN}: is there by itself"
    for name, fact in document.facts.items():
        yield from _sends(f"facts.{name}", fact, {*arguments, CUSTOMER})
        yield from _bound(f"facts.{name}", fact)
    yield from checking.fact_fields(document)
    yield from checking.matters(document, facts)
    yield from _sends("write", write, {*known, CUSTOMER, OPERATION_ID, IDEMPOTENCY_KEY})
    yield from _keyed(manifest, write)
    yield from _answered(document)
    yield from checking.believed(confirmed, write.send or {}, arguments, known)
    yield from checking.presumed(document, confirmed, known)
    yield from checking.taken(document, known)
    yield from checking.title(document, manifest, known)
    if document.inspect is not None:
        yield from _sends("inspect", document.inspect, {*known, CUSTOMER, OPERATION_ID})
        if document.inspect.tool == write.tool:
            yield "inspect.tool: is the one that writes"
        sent = {name for _, name in [*names_in(write.send or {}, ""), *names_in(write.meta, "")]}
        if OPERATION_ID not in sent:
            yield f"inspect: finds nothing; write sends no ${OPERATION_ID}"
        if OPERATION_ID not in {name_of(value) for value in confirmed.equal.values()}:
            yield f"confirmed.equal: has no ${OPERATION_ID}; a look-up could not tell one operation from another"
    elif document.undone_late:
        yield "undone_late: nothing can be looked at again without inspect"


def _keyed(manifest: Manifest, write: Write) -> Iterator[str]:
    if (manifest.idempotency == "key") != (write.key_hours is not None):
        yield "write.key_hours: belongs to the manifest's idempotency: key; it says how long the upstream knows one"
    named = {name for _, name in [*names_in(write.send or {}, ""), *names_in(write.meta, "")]}
    if write.key_hours is not None and not named & {IDEMPOTENCY_KEY, OPERATION_ID}:
        yield f"write: has no ${IDEMPOTENCY_KEY} in send or meta, which key_hours speaks of"


def _answered(document: McpDocument) -> Iterator[str]:
    counted = Counter((each.error, each.rpc) for each in document.outcomes)
    for (error, rpc), count in counted.items():
        if count > 1:
            yield f"outcomes: {error if rpc is None else rpc} is listed twice"
    if document.error is None and any(each.error is not None for each in document.outcomes):
        yield "error: is missing; it says where in an answer the upstream's error code stands"
