"""A tool that changes something with one request over HTTP: what is sent, and what an answer means."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from gateways.border import failed, problem_of, rate_limited, unknown, unsent_or_unknown
from gateways.http import Answered, NotAnswered
from gateways.protocols import Systems
from schemas.calls import Binding
from schemas.codes import Code
from schemas.effects import Attempt, Effect, Inspection
from schemas.replies import Explanation
from tools.declared.document import Confirmation
from tools.declared.references import error_of, resolve
from tools.declared.write import IDEMPOTENCY_KEY, DeclaredWrite, facts_fields
from tools.facts import at_once
from tools.http.document import HttpDocument, Inspect, Write
from tools.http.paths import path_of, query_of
from tools.http.reading import fetch
from tools.protocol import Refusal


class HttpWrite(DeclaredWrite):
    """Built from a document that `tools.http.checking` found nothing wrong with."""

    def __init__(self, name: str, document: HttpDocument, write: Write, confirmed: Confirmation, look: Inspect) -> None:
        super().__init__(name, document, confirmed, facts_fields(document), write.key_hours)
        self._document, self._write, self._inspect = document, write, look

    @property
    def system(self) -> str:
        return self._document.system

    async def read_answers(
        self, values: Mapping[str, object], binding: Binding, systems: Systems
    ) -> Mapping[str, JsonValue] | Refusal:
        document, remote = self._document, systems.remote(self.system)
        reads = [fetch(remote, fact, values, error=document.error, what=name) for name, fact in document.facts.items()]
        answers: dict[str, JsonValue] = {}
        for name, answer in zip(document.facts, await at_once(reads), strict=True):
            if isinstance(answer, Refusal):
                return answer
            answers[name] = answer
        return answers

    def check_sendable(self, values: Mapping[str, object]) -> None:
        path_of(self._write.path, values)

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        values, write = self._effect_values(effect), self._write
        template, path = path_of(write.path, values)
        body = resolve(write.body, values)
        in_body = f"${IDEMPOTENCY_KEY}" in json.dumps(write.body)
        answer = await systems.remote(self._document.system).exchange(
            write.method,
            template,
            path=path,
            json=body if isinstance(body, dict) else {},
            idempotency_key=None if in_body else effect.gateway_key,
        )
        return unsent_or_unknown(answer) if isinstance(answer, NotAnswered) else self._meaning(answer, values)

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        values, look = self._effect_values(effect), self._inspect
        template, path = path_of(look.get, values)
        remote = systems.remote(self._document.system)
        answer = await remote.exchange("GET", template, path=path, query=query_of(look.query, values))
        if not isinstance(answer, Answered) or answer.status != 200:
            return unknown(answer.exchange, problem_of(answer))
        return self._found(answer.json, answer.exchange, effect, look)

    def _meaning(self, answer: Answered, values: Mapping[str, object]) -> Attempt:
        error = error_of(answer.json, self._document.error)
        listed = {(each.status, each.error): each for each in self._document.outcomes}
        outcome = listed.get((answer.status, error)) or listed.get((answer.status, None))
        if outcome is None or outcome.means == "unknown":
            return unknown(answer.exchange, f"http_{answer.status}")
        match outcome.means:
            case "confirmed":
                return self._confirm(answer.json, values, answer.exchange)
            case Code.RATE_LIMITED:
                return rate_limited(answer, self._document.system)
            case Code.INVALID_STATE:
                because = outcome.because or "its state is another one by now"
                return failed(Code.INVALID_STATE, answer.exchange, Explanation(values={"because": because}))
            case code:
                return failed(code, answer.exchange)
