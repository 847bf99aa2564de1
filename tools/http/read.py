"""A declared tool that reads."""

import json
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue, ValidationError

from gateways.protocols import Systems, SystemUnavailable
from policy.wording import Wording
from schemas.base import Model
from schemas.calls import Binding
from tools.http.document import FieldText, Get, HttpDocument
from tools.http.fields import model_of, taken
from tools.http.reading import at, fetch
from tools.protocol import Arguments, ReadTool, Refusal
from tools.results import COUNT, TRUNCATED

COUNTING = {
    COUNT: FieldText(type="integer", description="How many there are in all"),
    TRUNCATED: FieldText(type="boolean", description="Whether some are not shown"),
}


def listed(document: HttpDocument) -> str | None:
    """The field of the result that is a list; a result has one at most."""
    return next((name for name, field in document.result.items() if field.type == "array"), None)


class DeclaredRead(ReadTool[Arguments, Model]):
    """Built from a document that `tools.http.checking` found nothing wrong with."""

    def __init__(self, name: str, document: HttpDocument, get: Get, done: Wording) -> None:
        self.name = name
        self._document, self._get, self._done = document, get, done
        self._list = listed(document)
        result = document.result | (COUNTING if self._list else {})
        self.arguments_model = model_of(f"{name}_arguments", document.arguments, Arguments, bounded=True)
        self.result_model = model_of(f"{name}_result", result, Model, bounded=False)

    async def read(self, arguments: Arguments, binding: Binding, systems: Systems) -> Model | Refusal:
        values = {"args": arguments.model_dump(mode="json"), "run": {"customer_id": binding.customer_id}}
        remote = systems.remote(self._document.system)
        answer = await fetch(remote, self._get, values, error=self._document.error, what="record")
        if isinstance(answer, Refusal):
            return answer
        found: dict[str, JsonValue] = taken(self._document.result, answer, datetime.now(UTC))
        if self._list is not None:
            entries = found.get(self._list)
            if not isinstance(entries, list):
                raise SystemUnavailable(remote.system, "unreadable")
            total = len(entries) if self._get.total is None else at(answer, self._get.total)
            if not isinstance(total, int):
                raise SystemUnavailable(remote.system, "unreadable")
            found |= {COUNT: total, TRUNCATED: len(entries) < total}
        try:
            return self.result_model.model_validate_json(json.dumps(found))
        except ValidationError:
            raise SystemUnavailable(remote.system, "unreadable") from None

    def is_empty(self, result: Model) -> bool:
        return self._list is not None and not getattr(result, self._list)

    def done(self, arguments: Arguments, result: Model | None) -> str:
        values: dict[str, Any] = {"args": arguments.model_dump(mode="json")}
        values["result"] = {} if result is None else result.model_dump(mode="json")
        return self._done.render(values)
