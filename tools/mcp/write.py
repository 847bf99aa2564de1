"""A tool that changes something with one call of an upstream's: what is sent, and what an answer means."""

from collections.abc import Mapping

from pydantic import JsonValue

from gateways.border import failed, rate_limited, unknown, unsent_or_unknown
from gateways.http import Answered, NotAnswered
from gateways.protocols import Systems, SystemUnavailable
from gateways.upstreams import Called, Changed
from schemas.calls import Binding
from schemas.codes import Code
from schemas.effects import NOT_INSPECTABLE, Attempt, Effect, Exchange, Inspection
from schemas.replies import Explanation
from tools.declared.document import Confirmation, FieldText
from tools.declared.references import error_of
from tools.declared.write import FACTS, DeclaredWrite, facts_fields
from tools.facts import at_once
from tools.mcp.calling import QUARANTINED, arguments_of, fetch
from tools.mcp.document import McpDocument, Write
from tools.protocol import Refusal

RUN = "run"
# Problems with which the upstream refused whoever asked, before it looked at what.
_REFUSED = {"auth_failed": Code.AUTH_FAILED, "forbidden": Code.REMOTE_FORBIDDEN, "rate_limited": Code.RATE_LIMITED}


def mcp_facts_fields(document: McpDocument) -> dict[str, FieldText]:
    """`facts.<fact>.<field>`, when they were read, and whom the run is for, which goes with the effect from here."""
    return facts_fields(document) | {
        RUN: FieldText(type="object", properties={"customer_id": FieldText(pattern="^.*$")})
    }


class McpWrite(DeclaredWrite):
    """Built from a document that `tools.mcp.checking` found nothing wrong with."""

    def __init__(self, name: str, document: McpDocument, write: Write, confirmed: Confirmation) -> None:
        super().__init__(name, document, confirmed, mcp_facts_fields(document), write.key_hours)
        self.document, self._write = document, write

    @property
    def system(self) -> str:
        return self.document.upstream

    async def read_answers(
        self, values: Mapping[str, object], binding: Binding, systems: Systems
    ) -> Mapping[str, JsonValue] | Refusal:
        """Nobody is asked about a tool that is not what was reviewed, so that is looked at first."""
        upstream, document = systems.upstream(self.system), self.document
        changes = await upstream.changes(document.pins)
        if isinstance(changes, NotAnswered):
            raise SystemUnavailable(self.system, changes.exchange.problem or "transport")
        if changes:
            return QUARANTINED
        reads = [
            fetch(upstream, fact, values, error=document.error, what=name) for name, fact in document.facts.items()
        ]
        answers: dict[str, JsonValue] = {}
        for name, answer in zip(document.facts, await at_once(reads), strict=True):
            if isinstance(answer, Refusal):
                return answer
            answers[name] = answer.content
        return answers

    def bound(self, binding: Binding) -> dict[str, JsonValue]:
        return {RUN: {"customer_id": binding.customer_id}}

    def check_sendable(self, values: Mapping[str, object]) -> None:
        """Every JSON can be sent."""

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        arguments, meta = arguments_of(self._write, self._sent_values(effect))
        answer = await systems.upstream(self.system).call(
            self._write.tool, self._write.pin, arguments, meta=meta, writes=True
        )
        match answer:
            case Changed():
                return failed(Code.CAPABILITY_DISABLED, self._unsent(answer))
            case NotAnswered(exchange) if exchange.upstream_status is not None and exchange.problem in _REFUSED:
                return _refused(_REFUSED[exchange.problem], exchange, self.system)
            case NotAnswered():
                return unsent_or_unknown(answer)
            case Called() if answer.is_error or answer.rpc is not None:
                return self._meaning(answer)
            case Called():
                return self._confirm(answer.content, self._effect_values(effect), answer.exchange)

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        look = self.document.inspect
        if look is None:
            return unknown(self._nothing_asked(NOT_INSPECTABLE))
        arguments, meta = arguments_of(look, self._sent_values(effect))
        answer = await systems.upstream(self.system).call(look.tool, look.pin, arguments, meta=meta)
        match answer:
            case Changed():
                return unknown(self._unsent(answer))
            case NotAnswered():
                return unknown(answer.exchange)
            case Called() if answer.is_error or answer.rpc is not None:
                return unknown(answer.exchange, "refused")
            case Called():
                return self._found(answer.content, answer.exchange, effect, look)

    def _sent_values(self, effect: Effect) -> dict[str, object]:
        """The names in a call, `$run.customer_id` as the run was bound when it was decided."""
        facts = effect.target.get(FACTS)
        return self._effect_values(effect) | {RUN: facts[RUN] if isinstance(facts, dict) else None}

    def _meaning(self, answer: Called) -> Attempt:
        error = error_of(answer.content, self.document.error)
        listed = {(each.error, each.rpc): each for each in self.document.outcomes}
        outcome = listed.get((error, answer.rpc))
        if outcome is None and answer.rpc is None:
            outcome = listed.get((None, None))
        if outcome is None or outcome.means == "unknown":
            return unknown(answer.exchange, "error" if answer.rpc is None else "protocol_error")
        if outcome.means is Code.INVALID_STATE:
            because = outcome.because or "its state is another one by now"
            return failed(Code.INVALID_STATE, answer.exchange, Explanation(values={"because": because}))
        return _refused(outcome.means, answer.exchange, self.system)

    def _unsent(self, change: Changed) -> Exchange:
        return self._nothing_asked("definition_changed" if change.change == "changed" else "definition_gone")

    def _nothing_asked(self, problem: str) -> Exchange:
        return Exchange(
            system=self.system,
            method="POST",
            path_template="tools/call",
            reached="nothing_sent",
            elapsed_ms=0,
            problem=problem,
        )


def _refused(code: Code, exchange: Exchange, system: str) -> Attempt:
    if code is not Code.RATE_LIMITED:
        return failed(code, exchange)
    return rate_limited(Answered(exchange.upstream_status or 429, None, None, exchange), system)
