"""What the OpenAPI document says, as a page and as the file that clients are generated from."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from fastapi import FastAPI

from api.app import create_app, description
from docs.markdown import one_line, table

Json = dict[str, Any]

_SCHEMAS, _TOKEN = "#/components/schemas/", "_token"
_BOUNDS = {"minimum": "at least {}", "maximum": "at most {}", "maxLength": "up to {} characters", "pattern": "`{}`"}


@cache
def document(base: str) -> Json:
    """The OpenAPI document of a service at `base`, made without any server behind it."""

    @asynccontextmanager
    async def never(_: FastAPI) -> AsyncGenerator[None]:
        raise AssertionError("it is described, not run")
        yield

    return description(create_app(never), base)


def openapi(base: str) -> str:
    """The document as a file."""
    return json.dumps(document(base), indent=1, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Routes:
    """The parts of the page about `described`, an OpenAPI document."""

    described: Json

    def parts(self) -> Iterator[str]:
        """Each route with its token, parameters, body and answers; then the objects that they name. A refusal has the
        page of its code."""
        for path, operations in self.described["paths"].items():
            for method, operation in operations.items():
                yield f"## {method.upper()} {path}"
                yield from self._route(operation)
        yield "## Objects"
        for name, schema in self._schemas.items():
            if _code(schema) is None:
                yield f"### {name}"
                yield from self._object(schema)

    @property
    def _schemas(self) -> Json:
        return self.described["components"]["schemas"]

    def _route(self, operation: Json) -> Iterator[str]:
        yield one_line(operation["description"])
        tokens = [name.removesuffix(_TOKEN) for each in operation.get("security", []) for name in each]
        body = f" Body: {self._content(operation['requestBody'])}." if "requestBody" in operation else ""
        yield f"Token: {', '.join(tokens) or 'none'}.{body}"
        if parameters := operation.get("parameters"):
            rows = [
                (
                    f"`{each['name']}`",
                    each["in"] if each["required"] else f"{each['in']}, optional",
                    self._kind(each["schema"]),
                )
                for each in parameters
            ]
            yield table(("Parameter", "In", ""), rows)
        yield table(
            ("Status", "When", "Body"),
            [
                (status, one_line(each["description"]), self._content(each))
                for status, each in operation["responses"].items()
            ],
        )

    def _content(self, message: Json) -> str:
        return " or ".join(
            self._kind(each["schema"]) for each in message.get("content", {}).values() if "schema" in each
        )

    def _object(self, schema: Json) -> Iterator[str]:
        if said := schema.get("description"):
            yield one_line(said)
        properties: Json = schema.get("properties", {})
        if not properties:
            yield f"{self._kind(schema)}."
            return
        required = schema.get("required", ())
        rows = [
            (
                f"`{name}`",
                "always" if name in required else "",
                one_line(f"{self._kind(each)} {each.get('description', '')}"),
            )
            for name, each in properties.items()
        ]
        yield table(("Field", "", "Type"), rows)

    def _kind(self, schema: Json) -> str:
        """The type in words, with a link where it is an object of its own."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_SCHEMAS)
            code = _code(self._schemas[name])
            return f"[`{code}`](../codes/{code}.md)" if code else f"[{name}](#{name.lower()})"
        for several in ("anyOf", "oneOf", "allOf"):
            if several in schema:
                return " or ".join(dict.fromkeys(self._kind(each) for each in schema[several]))
        if "const" in schema:
            return f"`{json.dumps(schema['const'])}`"
        if "enum" in schema:
            return ", ".join(f"`{each}`" for each in schema["enum"])
        kind: str = schema.get("type", "any JSON")
        if kind == "array":
            kind = f"list of {self._kind(schema.get('items', {}))}"
        elif "format" in schema:
            kind = f"{kind} ({schema['format']})"
        said = [text.format(schema[name]) for name, text in _BOUNDS.items() if name in schema]
        if "default" in schema:
            said.append(f"default `{json.dumps(schema['default'])}`")
        return ", ".join((kind, *said))


def _code(schema: Json) -> str | None:
    """Of a schema of one refusal, its code."""
    for each in schema.get("allOf", ()):
        if code := each.get("properties", {}).get("code", {}).get("const"):
            return code
    return None
