"""A declared tool that changes something, whatever it speaks: its facts, and when its effect is one."""

import json
from abc import abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from gateways.border import failed, unknown
from gateways.protocols import Systems, SystemUnavailable
from policy.values import ABSENT
from policy.wording import parse_wording
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim
from schemas.effects import Absent, Confirmed, Effect, Exchange, Inspection, Unknown
from schemas.replies import Explanation
from tools.declared.document import Confirmation, Document, FieldText, Lookup
from tools.declared.fields import model_of, taken
from tools.declared.references import PLAIN_ID, at, name_of, resolve
from tools.protocol import Refusal, WriteArguments, WriteTool

OPERATION_ID = "operation_id"
IDEMPOTENCY_KEY = "idempotency_key"
REMOTE_ID = "remote_id"
FACTS = "facts"
"""Where the facts stand in an effect's target, beside the arguments by their own names."""


def facts_fields(document: Document) -> dict[str, FieldText]:
    """`facts.<fact>.<field>`, and when they were read."""
    read = {name: FieldText(type="object", properties=dict(each)) for name, each in document.fact_fields.items()}
    return read | {"facts_at": FieldText(format="date-time")}


class DeclaredWrite(WriteTool[WriteArguments, Model, Model]):
    """Built from a document that was checked. What speaks to the remote system is the subclass's."""

    exceeded_code = Code.INVALID_STATE

    def __init__(
        self,
        name: str,
        document: Document,
        confirmed: Confirmation,
        facts: Mapping[str, FieldText],
        key_hours: int | None,
    ) -> None:
        """`facts` are the fields of the facts; `key_hours`: how long the remote knows an idempotency key."""
        self.name = name
        self._text, self._confirmed = document, confirmed
        self._title, self._done = parse_wording(document.title or ""), parse_wording(document.done)
        self.arguments_model = model_of(f"{name}_arguments", document.arguments, WriteArguments, bounded=True)
        self.facts_model = model_of(f"{name}_facts", facts, Model, bounded=True)
        self.result_model = model_of(f"{name}_result", document.result, Model, bounded=True)
        arguments = document.arguments.items()
        self.untrusted_arguments = tuple(each for each, field in arguments if field.untrusted)
        self.amendable = tuple(each for each, field in arguments if field.amendable)
        self.undone_late = document.undone_late
        self.key_validity = None if key_hours is None else timedelta(hours=key_hours)

    @abstractmethod
    async def read_answers(
        self, values: Mapping[str, object], binding: Binding, systems: Systems
    ) -> Mapping[str, JsonValue] | Refusal:
        """What each read of facts answers, by its name. Raises SystemUnavailable."""

    @abstractmethod
    def check_sendable(self, values: Mapping[str, object]) -> None:
        """Pure. Raises ValueError where these arguments and facts cannot be put into the request."""

    @property
    @abstractmethod
    def system(self) -> str:
        """The system that it writes to."""

    async def read_facts(self, arguments: WriteArguments, binding: Binding, systems: Systems) -> Model | Refusal:
        values = {"args": arguments.model_dump(mode="json"), "run": {"customer_id": binding.customer_id}}
        answers = await self.read_answers(values, binding, systems)
        if isinstance(answers, Refusal):
            return answers
        now, fields = datetime.now(UTC), self._text.fact_fields
        found: dict[str, JsonValue] = {name: taken(fields[name], answer, now) for name, answer in answers.items()}
        found |= {"facts_at": now.isoformat()} | self.bound(binding)
        try:
            facts = self.facts_model.model_validate_json(json.dumps(found))
            self.check_sendable(self._values(arguments, facts))
        except ValueError:
            raise SystemUnavailable(self.system, "unreadable") from None
        return facts

    def bound(self, binding: Binding) -> dict[str, JsonValue]:
        """Facts that are known without asking anybody."""
        return {}

    def check(self, arguments: WriteArguments, facts: Model) -> Refusal | None:
        return None

    def claim(self, arguments: WriteArguments, facts: Model) -> Claim | None:
        text = self._text.claim
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
        text, left = self._text.claim, max(available, 0)
        field = "" if text is None else (name_of(text.amount) or "").removeprefix("args.")
        return Explanation(
            values={"because": f"at most {left} is left"},
            action="repair_input" if left else None,
            allowed={f"max_{field}": left},
            invalid_fields=(field,),
        )

    def matters(self, facts: Model) -> dict[str, JsonValue]:
        read = {"facts": facts.model_dump(mode="json")}
        return {name: resolve(f"$facts.{name}", read) for name in self._text.matters}

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
        return list(self._text.result.items())

    def _is_ours(self, entry: JsonValue, effect: Effect) -> bool:
        return any(
            name_of(value) == OPERATION_ID and at(entry, where) == effect.operation_id
            for where, value in self._confirmed.equal.items()
        )

    def _found(self, answer: JsonValue, exchange: Exchange, effect: Effect, look: Lookup) -> Inspection:
        """What a look-up says of the effect."""
        entries = at(answer, look.list)
        if not isinstance(entries, list):
            return unknown(exchange, "unreadable")
        if not all(_same(at(answer, where), value) for where, value in look.complete.items()):
            return unknown(exchange, "incomplete")
        ours = [each for each in cast("list[JsonValue]", entries) if self._is_ours(each, effect)]
        if not ours:
            return Absent(exchange=exchange)
        if len(ours) > 1:
            return unknown(exchange, "found_twice")
        if any(at(ours[0], where) in states for where, states in look.failed.items()):
            return failed(Code.REMOTE_REFUSED, exchange)
        return self._confirm(ours[0], self._effect_values(effect), exchange)

    def _confirm(self, entry: JsonValue, values: Mapping[str, object], exchange: Exchange) -> Confirmed | Unknown:
        """A confirmation that is not ours in every part is none."""
        for where, value in self._confirmed.equal.items():
            if not _same(at(entry, where), resolve(value, values)):
                return unknown(exchange, "mismatched_operation" if name_of(value) == OPERATION_ID else "mismatched")
        remote_id = at(entry, self._confirmed.id)
        if not isinstance(remote_id, str) or PLAIN_ID.fullmatch(remote_id) is None:
            return unknown(exchange, "unreadable")
        try:
            found = json.dumps(taken(self._text.result, entry, datetime.now(UTC)))
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
