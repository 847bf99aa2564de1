"""A declared tool that reads, whatever it speaks: what of an answer is its result."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue, ValidationError

from gateways.protocols import SystemUnavailable
from policy.wording import parse_wording
from schemas.base import Model
from schemas.calls import Binding
from tools.declared.document import Document, FieldText, Path
from tools.declared.fields import model_of, taken
from tools.declared.references import at
from tools.protocol import Arguments, ReadTool
from tools.results import COUNT, TRUNCATED

COUNTING = {
    COUNT: FieldText(type="integer", description="How many there are in all"),
    TRUNCATED: FieldText(type="boolean", description="Whether some are not shown"),
}


def listed(document: Document) -> str | None:
    """The field of the result that is a list; a result has one at most."""
    return next((name for name, field in document.result.items() if field.type == "array"), None)


def read_values(arguments: Arguments, binding: Binding) -> dict[str, object]:
    """What the names in a read mean."""
    return {"args": arguments.model_dump(mode="json"), "run": {"customer_id": binding.customer_id}}


class DeclaredRead(ReadTool[Arguments, Model]):
    """Built from a document that was checked. What speaks to the remote system is the subclass's."""

    def __init__(
        self, name: str, document: Document, *, system: str, total: Path | None, base: type[Model] = Model
    ) -> None:
        """`total`: where an answer says how many entries there are in all. `base` has more fields of the result."""
        self.name = name
        self._system, self._fields, self._total = system, document.result, total
        self._done = parse_wording(document.done)
        self._list = listed(document)
        result = document.result | (COUNTING if self._list else {})
        self.arguments_model = model_of(f"{name}_arguments", document.arguments, Arguments, bounded=True)
        self.result_model = model_of(f"{name}_result", result, base, bounded=False)

    def result_of(self, answer: JsonValue, more: Mapping[str, JsonValue] | None = None) -> Model:
        """The result that an answer holds, with `more` fields of its model. Raises SystemUnavailable."""
        found: dict[str, JsonValue] = taken(self._fields, answer, datetime.now(UTC)) | dict(more or {})
        if self._list is not None:
            entries = found.get(self._list)
            if not isinstance(entries, list):
                raise SystemUnavailable(self._system, "unreadable")
            total = len(entries) if self._total is None else at(answer, self._total)
            if not isinstance(total, int):
                raise SystemUnavailable(self._system, "unreadable")
            found |= {COUNT: total, TRUNCATED: len(entries) < total}
        try:
            return self.result_model.model_validate_json(json.dumps(found))
        except ValidationError:
            raise SystemUnavailable(self._system, "unreadable") from None

    def is_empty(self, result: Model) -> bool:
        return self._list is not None and not getattr(result, self._list)

    def done(self, arguments: Arguments, result: Model | None) -> str:
        values: dict[str, Any] = {"args": arguments.model_dump(mode="json")}
        values["result"] = {} if result is None else result.model_dump(mode="json")
        return self._done.render(values)
