"""A declared tool that changes something: its facts, its one request, what an answer means, how it is looked up."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from gateways.border import failed, problem_of, rate_limited, unknown, unsent_or_unknown
from gateways.http import Answered, NotAnswered
from gateways.protocols import Systems, SystemUnavailable
from policy.values import ABSENT
from policy.wording import Wording, parse_wording
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.effects import Absent, Attempt, Confirmed, Effect, Exchange, Inspection, Unknown
from schemas.replies import Explanation
from tools.facts import at_once
from tools.http.document import Confirmation, FieldText, HttpDocument, Inspect, Write
from tools.http.fields import model_of, taken
from tools.http.reading import at, error_of, fetch
from tools.http.references import PLAIN_ID, NotPlainError, name_of, path_of, query_of, resolve
from tools.protocol import Refusal, WriteArguments, WriteTool

OPERATION_ID = "operation_id"
IDEMPOTENCY_KEY = "idempotency_key"
REMOTE_ID = "remote_id"
FACTS = "facts"
"""Where the facts stand in an effect's target, beside the arguments by their own names."""


def facts_fields(document: HttpDocument) -> dict[str, FieldText]:
    """`facts.<fact>.<field>`, and when they were read."""
    read = {name: FieldText(type="object", properties=dict(fact.fields)) for name, fact in document.facts.items()}
    return read | {"facts_at": FieldText(format="date-time")}


class DeclaredWrite(WriteTool[WriteArguments, Model, Model]):
    """Built from a document that `tools.http.checking` found nothing wrong with."""

    exceeded_code = Code.INVALID_STATE

    def __init__(
        self, name: str, document: HttpDocument, write: Write, confirmed: Confirmation, look: Inspect, title: Wording
    ) -> None:
        self.name = name
        self._document, self._write, self._confirmed, self._inspect = document, write, confirmed, look
        self._title, self._done = title, parse_wording(document.done)
        self.arguments_model = model_of(f"{name}_arguments", document.arguments, WriteArguments, bounded=True)
        self.facts_model = model_of(f"{name}_facts", facts_fields(document), Model, bounded=True)
        self.result_model = model_of(f"{name}_result", document.result, Model, bounded=True)
        arguments = document.arguments.items()
        self.untrusted_arguments = tuple(each for each, field in arguments if field.untrusted)
        self.amendable = tuple(each for each, field in arguments if field.amendable)
        self.undone_late = document.undone_late
        self.key_validity = None if write.key_hours is None else timedelta(hours=write.key_hours)

    async def read_facts(self, arguments: WriteArguments, binding: Binding, systems: Systems) -> Model | Refusal:
        values = {"args": arguments.model_dump(mode="json"), "run": {"customer_id": binding.customer_id}}
        document, remote = self._document, systems.remote(self._document.system)
        reads = [fetch(remote, fact, values, error=document.error, what=name) for name, fact in document.facts.items()]
        answers = await at_once(reads)
        now, found = datetime.now(UTC), dict[str, JsonValue]()
        for (name, fact), answer in zip(document.facts.items(), answers, strict=True):
            if isinstance(answer, Refusal):
                return answer
            found[name] = taken(fact.fields, answer, now)
        found["facts_at"] = now.isoformat()
        try:
            facts = self.facts_model.model_validate_json(json.dumps(found))
            path_of(self._write.path, self._values(arguments, facts))
        except (ValidationError, NotPlainError):
            raise SystemUnavailable(remote.system, "unreadable") from None
        return facts

    def check(self, arguments: WriteArguments, facts: Model) -> Refusal | None:
        return None

    def claim(self, arguments: WriteArguments, facts: Model) -> Claim | None:
        text = self._document.claim
        if text is None:
            return None
        values = self._values(arguments, facts)
        return Claim.model_validate(
            {
                "resource": parse_wording(text.resource).render(values),
                "amount": resolve(text.amount, values),
                "available": resolve(text.available, values),
                "currency": resolve(text.currency, values),
            }
        )

    def exceeded(self, arguments: WriteArguments, facts: Model, available: int) -> Explanation:
        text, left = self._document.claim, max(available, 0)
        field = "" if text is None else (name_of(text.amount) or "").removeprefix("args.")
        return Explanation(
            values={"because": f"at most {left} is left"},
            action="repair_input" if left else None,
            allowed={f"max_{field}": left},
            invalid_fields=(field,),
        )

    def matters(self, facts: Model) -> dict[str, JsonValue]:
        read = {"facts": facts.model_dump(mode="json")}
        return {name: resolve(f"$facts.{name}", read) for name in self._document.matters}

    def target(self, arguments: WriteArguments, facts: Model) -> dict[str, JsonValue]:
        values = self._values(arguments, facts)
        asked = {name: value for name, value in values["args"].items() if name != IDEMPOTENCY_KEY}
        return {**asked, FACTS: values["facts"]}

    def title(self, arguments: WriteArguments, facts: Model) -> str:
        return self._title.render(self._values(arguments, facts))

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        values = self._effect_values(effect) | {REMOTE_ID: remote_id}
        given = {name: resolve(presumption(self._confirmed, name, field), values) for name, field in self._fields()}
        return {name: value for name, value in given.items() if value is not None}

    def done(self, arguments: WriteArguments, result: dict[str, JsonValue]) -> str:
        return self._done.render({"args": arguments.model_dump(mode="json"), "result": result})

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
        entries = at(answer.json, look.list)
        if not isinstance(entries, list):
            return unknown(answer.exchange, "unreadable")
        if not all(_same(at(answer.json, where), value) for where, value in look.complete.items()):
            return unknown(answer.exchange, "incomplete")
        ours = [each for each in cast("list[JsonValue]", entries) if self._is_ours(each, effect)]
        if not ours:
            return Absent(exchange=answer.exchange)
        if len(ours) > 1:
            return unknown(answer.exchange, "found_twice")
        if any(at(ours[0], where) in states for where, states in look.failed.items()):
            return failed(Code.REMOTE_REFUSED, answer.exchange)
        return self._confirm(ours[0], values, answer.exchange)

    def _values(self, arguments: WriteArguments, facts: Model) -> dict[str, dict[str, Any]]:
        return {"args": arguments.model_dump(mode="json"), "facts": facts.model_dump(mode="json")}

    def _effect_values(self, effect: Effect) -> dict[str, object]:
        asked = {name: value for name, value in effect.target.items() if name != FACTS}
        return {
            "args": asked,
            "facts": effect.target.get(FACTS),
            OPERATION_ID: effect.operation_id,
            IDEMPOTENCY_KEY: effect.gateway_key,
        }

    def _fields(self) -> list[tuple[str, FieldText]]:
        return list(self._document.result.items())

    def _is_ours(self, entry: JsonValue, effect: Effect) -> bool:
        return any(
            name_of(value) == OPERATION_ID and at(entry, where) == effect.operation_id
            for where, value in self._confirmed.equal.items()
        )

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

    def _confirm(self, entry: JsonValue, values: Mapping[str, object], exchange: Exchange) -> Confirmed | Unknown:
        """A confirmation that is not ours in every part is none."""
        for where, value in self._confirmed.equal.items():
            if not _same(at(entry, where), resolve(value, values)):
                return unknown(exchange, "mismatched_operation" if name_of(value) == OPERATION_ID else "mismatched")
        remote_id = at(entry, self._confirmed.id)
        if not isinstance(remote_id, str) or PLAIN_ID.fullmatch(remote_id) is None:
            return unknown(exchange, "unreadable")
        try:
            found = json.dumps(taken(self._document.result, entry, datetime.now(UTC)))
            result = self.result_model.model_validate_json(found)
        except ValidationError:
            return unknown(exchange, "unreadable")
        return Confirmed(
            remote_id=remote_id, result=result.model_dump(mode="json", exclude_none=True), exchange=exchange
        )


def presumption(confirmed: Confirmation, name: str, field: FieldText) -> JsonValue:
    """What a field of the result is, as long as nobody read it: as it says, or what it would have to be equal to."""
    source = field.source or name
    if field.presumed is not None:
        return field.presumed
    if source == confirmed.id:
        return f"${REMOTE_ID}"
    return confirmed.equal.get(source)


def _same(found: object, expected: object) -> bool:
    """Equal and of one type: `true` is not 1."""
    return found is not ABSENT and type(found) is type(expected) and found == expected
