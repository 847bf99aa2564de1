"""A diagnostic as an account that a person can rely on: what happened, how far it went, what is not known. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from schemas.codes import Code
from schemas.diagnostics import (
    BOUNDARIES,
    Body,
    BoundaryName,
    Diagnostic,
    EdgeRequest,
    ExchangeAccount,
    MarkName,
    RawException,
    Token,
)

_FINGERPRINT_SHOWN = 16

_STEPS = {
    "edge": "the request",
    "admit": "deciding the call",
    "execute": "carrying it out",
    "inspect": "looking it up",
    "deny": "taking a person's denial",
    "expire": "closing it at its deadline",
}
_PURPOSES = {
    "facts": "To read the facts",
    "read": "To answer it",
    "effect": "To carry it out",
    "inspection": "To look up what became of it",
}
_BOUNDARIES: dict[BoundaryName, str] = {
    "input_validated": "Input validated",
    "credential_selected": "Credential selected",
    "authorised": "Authorised",
    "connection_started": "Connection started",
    "bytes_sent": "Bytes sent",
    "response_received": "Response received",
    "result_returned": "Result returned",
}
_UNCONNECTED = {
    "name_not_resolved": "the name of the host could not be resolved",
    "connection_refused": "the connection was refused",
    "connection_reset": "the connection was reset",
    "tls": "the TLS handshake failed",
}
_UNANSWERED = {
    "timeout": "no answer came before the deadline",
    "reset": "the connection was reset before an answer came",
    "no_response": "the connection ended without an answer",
}
_SPOILT = {
    "unreadable": "Its body is not the strict JSON that was expected.",
    "truncated": "Its body broke off.",
    "too_large": "Its body was larger than what is read.",
    "timeout": "Its body did not end before the deadline.",
}
_OUTCOMES = {
    "confirmed": "The other system shows it with our operation id and amount: it happened.",
    "absent": "It was not found. That does not prove that it did not happen, so it stays unknown.",
}
_MAYBE_BEGUN = (
    "Whether a workflow was begun cannot be told from here; the same call with the same key cannot happen twice."
)


@dataclass(frozen=True, slots=True)
class Passed:
    """One boundary; `after_ms` is None where it was not reached."""

    name: BoundaryName
    title: str
    after_ms: int | None


@dataclass(frozen=True, slots=True)
class Told:
    """One account: its headline, its sentences in order, every boundary, and what was raised."""

    headline: str
    sentences: list[str]
    boundaries: list[Passed]
    raised: list[RawException]


def tell(diagnostic: Diagnostic) -> Told:
    """Everything that an account says, as sentences."""
    return Told(_headline(diagnostic), list(_sentences(diagnostic)), boundaries(diagnostic), _raised(diagnostic))


def boundaries(diagnostic: Diagnostic) -> list[Passed]:
    """All seven, in order."""
    passed = {mark.name: mark.after_ms for mark in diagnostic.marks}
    return [Passed(name, _BOUNDARIES[name], passed.get(name)) for name in BOUNDARIES]


def _raised(told: Diagnostic) -> list[RawException]:
    """Every exception, in the order of time."""
    found = [exchange.exception for exchange in told.exchanges] + [told.failure]
    return [each for each in found if each is not None]


def _headline(told: Diagnostic) -> str:
    what = f"{told.tool}: {_STEPS[told.step]}" if told.tool else _STEPS[told.step].capitalize()
    ended = told.status.replace("_", " ") if told.status else "broke off"
    return f"{what} – {ended}" + (f" ({told.code})" if told.code else "")


def _sentences(told: Diagnostic) -> Iterator[str]:
    at = told.began_at.isoformat(" ", "milliseconds").replace("+00:00", "Z")
    again = f", attempt {told.attempt}" if told.attempt > 1 else ""
    yield f"It began at {at} and took {told.elapsed_ms} ms{again}."
    if told.edge is not None:
        yield from _edge(told, told.edge)
    else:
        yield from _step(told)
    if told.told:
        # Later steps answer nobody: what they end with is told to whoever asks.
        asked = "The caller was told" if told.step in ("edge", "admit") else "Whoever asks is told since"
        yield f"{asked}: “{told.told}”"
    if told.failure is not None:
        yield f"What was raised: {told.failure.type}: {told.failure.text}"


def _edge(told: Diagnostic, edge: EdgeRequest) -> Iterator[str]:
    route = edge.route or "a path that is no route of ours"
    yield f"{edge.method} {route} from {edge.peer or 'an unknown peer'} ended at the edge with HTTP {edge.http_status}."
    yield _holder(edge.token)
    if edge.body is None:
        yield "Its body was not read."
    else:
        yield f"Of its body was read: {_size(edge.body)}. Nothing of what it says is kept."
    if not told.reached("input_validated"):
        yield "Its input was not accepted, so it never became a call: nothing was begun and nothing was sent."
    elif told.code is Code.IDEMPOTENCY_CONFLICT:
        yield "Its input was valid, but its key belongs to an earlier call, which is untouched: nothing was sent."
    else:
        yield f"Its input was valid. {_MAYBE_BEGUN}"


def _holder(token: Token | None) -> str:
    if token is None:
        return "It carried no bearer token."
    if token.state == "unknown":
        return "It carried a bearer token that was never issued here."
    state = {"live": "which is valid", "expired": "which has expired", "revoked": "which was revoked"}[token.state]
    run = f" for the run {token.run_id}" if token.run_id else ""
    return f"It carried the {token.kind} token {token.token_id} of {token.principal}{run}, {state}."


def _step(told: Diagnostic) -> Iterator[str]:
    if not told.reached("input_validated"):
        yield "Its input was not accepted."
    else:
        yield "Its input was valid."
    if told.verdict is not None:
        yield f"The policy {told.policy_version} answered “{told.verdict}” by the rule {told.rule}: {told.because}."
    if not told.reached("authorised"):
        yield "It was not authorised to change anything, so nothing was sent that could."
    else:
        yield "It was authorised."
    for exchange in told.exchanges:
        yield " ".join(_exchange(exchange))
    yield from _conclusion(told)


def _conclusion(told: Diagnostic) -> Iterator[str]:
    because = f" ({told.problem.replace('_', ' ')})" if told.problem else ""
    match told.outcome:
        case "confirmed" | "absent":
            yield _OUTCOMES[told.outcome]
        case "failed" if told.reached("bytes_sent"):
            yield f"The other system documents its answer as not done{because}: it did not happen."
        case "failed":
            yield f"No byte of it left{because}: it cannot have happened."
        case "unknown":
            yield (
                f"Whether it happened cannot be told from this{because}. It is recorded as unknown, and is looked up "
                "rather than sent again."
            )
        case None if told.reached("bytes_sent") and any(each.purpose == "effect" for each in told.exchanges):
            yield "The service broke off after it had begun to send: whether it happened cannot be told from this."
        case None if told.problem:
            yield f"It ended before anything was sent that could change anything{because}."
        case None:
            yield "Nothing was sent that could change anything."


def _exchange(exchange: ExchangeAccount) -> Iterator[str]:
    passed: dict[MarkName, int] = {mark.name: mark.after_ms for mark in exchange.marks}
    where = f"{exchange.method} {exchange.destination}{exchange.path_template}"
    yield f"{_PURPOSES[exchange.purpose]}: {where} ({exchange.system}) with the credential {exchange.credential_id}."
    if exchange.purpose == "facts" and exchange.problem is None and exchange.upstream_status == 200:
        yield f"HTTP 200 came after {passed['response_received']} ms and was read to its end."
        return
    yield f"The request's body: {_size(exchange.request)}."
    if exchange.problem == "egress_denied":
        yield "The destination is not one of those that are allowed, so no connection was begun."
    elif "bytes_sent" not in passed:
        yield f"A connection was begun, but {_unconnected(exchange, passed)}: no byte of the request left."
    elif "response_received" not in passed:
        yield f"{_sending(exchange, passed)}; then {_UNANSWERED.get(exchange.problem or '', 'the exchange broke off')}."
        yield "Whether the other system acted on it cannot be told from this exchange."
    else:
        after = passed["response_received"]
        yield f"{_sending(exchange, passed)}; HTTP {exchange.upstream_status} came after {after} ms."
        if exchange.headers:
            yield f"Its headers: {', '.join(f'{name}: {value}' for name, value in exchange.headers.items())}."
        if exchange.response is not None:
            yield f"Its body: {_size(exchange.response)}."
        yield _SPOILT.get(exchange.problem or "", "It was read to its end.")


def _unconnected(exchange: ExchangeAccount, passed: dict[MarkName, int]) -> str:
    if exchange.cause in _UNCONNECTED:
        return _UNCONNECTED[exchange.cause]
    if exchange.cause == "timeout":
        what = "the TLS handshake did not end" if "tls_started" in passed else "it was not made"
        return f"{what} before the deadline"
    return "it failed"


def _sending(exchange: ExchangeAccount, passed: dict[MarkName, int]) -> str:
    connection = "an open connection was used again" if exchange.kept_connection else "a connection was made"
    whole = ", and it was handed over whole" if "request_sent" in passed else ", and part of it may have left"
    return f"{connection[0].upper()}{connection[1:]}, the request began to leave after {passed['bytes_sent']} ms{whole}"


def _size(body: Body) -> str:
    """`12 bytes, fingerprint 0a1b…`; an empty body has no fingerprint worth showing."""
    if not body.size:
        return "0 bytes"
    return f"{body.size} byte{'s' if body.size > 1 else ''}, fingerprint {body.fingerprint[:_FINGERPRINT_SHOWN]}…"
