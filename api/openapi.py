"""What routes say of their bodies and answers in the description of the API: problems by code, from the registry."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from api.envelope import VERSION_HEADER
from schemas.base import Model
from schemas.codes import REGISTRY, Code
from schemas.guide import GUIDE, example_document
from schemas.replies import VERSION, Problem, Reply

Json = dict[str, Any]
JSON, PROBLEM = "application/json", "application/problem+json"

BODY, ID, QUERY = (400, 413, 415, 422), (404,), (422,)
"""The statuses that INVALID_INPUT comes with: for a body, for an id in the path, for parameters in the query."""

_ALWAYS = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.RATE_LIMITED, Code.TEMPORARY_FAILURE, Code.INTERNAL_FAILURE)
_PLAIN_PROBLEM: Json = {
    "type": "object",
    "description": "A problem that is no tool call's (RFC 9457).",
    "properties": {
        "type": {"const": "about:blank"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
    "additionalProperties": False,
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _name(code: Code) -> str:
    """`INVALID_INPUT` → `InvalidInput`."""
    return "".join(part.title() for part in code.split("_"))


def answer(model: type[Model], description: str, media_type: str = JSON) -> Json:
    """An answer's entry in `responses`."""
    return {"description": description, "content": {media_type: {"schema": _ref(model.__name__)}}}


def problems(*codes: Code, invalid: Iterable[int] = ()) -> dict[int | str, Json]:
    """The problems of a route that takes a token: those of every such route, `codes`, and INVALID_INPUT with the
    statuses `invalid`."""
    by_status: defaultdict[int, list[Code]] = defaultdict(list)
    for code in dict.fromkeys((*_ALWAYS, *codes)):
        by_status[REGISTRY[code].http_status].append(code)
    for status in invalid:
        by_status[status].append(Code.INVALID_INPUT)
    return {status: problem(*by_status[status]) for status in sorted(by_status)}


def problem(*codes: Code) -> Json:
    """A problem's entry in `responses`."""
    one_of = [_ref(_name(code)) for code in codes]
    schema = one_of[0] if len(one_of) == 1 else {"oneOf": one_of}
    titles = "; ".join(REGISTRY[code].title for code in codes)
    return {"description": titles, "content": {PROBLEM: {"schema": schema}}}


def plain_problem(description: str, *codes: Code) -> Json:
    """As `problem`, where the answer may also be one that is no tool call's."""
    one_of = [_ref("PlainProblem"), *(_ref(_name(code)) for code in codes)]
    return {"description": description, "content": {PROBLEM: {"schema": {"oneOf": one_of}}}}


def takes(token: str, body: type[Model] | None = None) -> Json:
    """`openapi_extra` of a route: the kind of token, and the model of the body."""
    extra: Json = {"security": [{f"{token}_token": []}]}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": {JSON: {"schema": _ref(body.__name__)}}}
    return extra


def describe(app: FastAPI, base: str, models: Mapping[type[Model], str], hidden: Mapping[str, Iterable[str]]) -> Json:
    """The OpenAPI document. `base` is the service's public URL, `models` what routes name, with its pydantic mode,
    `hidden` the fields of a model that are not shown."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=f"Replies and codes are of version {VERSION}, which every answer says in the header"
        f" `{VERSION_HEADER}`. Refusals are problem documents (RFC 9457); their `type` is the page about their code.",
        routes=app.routes,
        servers=[{"url": base}],
    )
    components = document.setdefault("components", {})
    schemas: Json = components.setdefault("schemas", {})
    for leftover in ("HTTPValidationError", "ValidationError"):
        schemas.pop(leftover, None)
    schemas.update(_models(models))
    for name, fields in hidden.items():
        for field in fields:
            schemas[name]["properties"].pop(field)
        schemas[name]["required"] = [each for each in schemas[name]["required"] if each not in fields]
    schemas["PlainProblem"] = _PLAIN_PROBLEM
    schemas.update({_name(code): _problem_schema(code, base) for code in Code if REGISTRY[code].http_status >= 400})
    components["securitySchemes"] = {
        f"{kind}_token": {"type": "http", "scheme": "bearer"} for kind in ("service", "run", "approver", "operator")
    }
    for path in document["paths"].values():
        for operation in path.values():
            _finish(operation)
    return document


def _models(models: Mapping[type[Model], str]) -> Json:
    wanted = [(Reply, "serialization"), (Problem, "serialization"), *models.items()]
    _, found = models_json_schema(cast("Any", wanted), ref_template="#/components/schemas/{model}")
    return found["$defs"]


def _problem_schema(code: Code, base: str) -> Json:
    spec = REGISTRY[code]
    statuses = sorted({spec.http_status, *spec.also})
    fixed: Json = {
        "type": {"const": f"{base}/codes/{code}"},
        "code": {"const": code.value},
        "status": {"const": spec.status},
        "http_status": {"enum": statuses},
    }
    return {
        "description": GUIDE[code].meaning,
        "allOf": [_ref("Problem"), {"properties": fixed, "required": list(fixed)}],
        "examples": [example_document(code, base)],
    }


def _finish(operation: Json) -> None:
    """Headers that answers have; and nothing of the framework's own form of a refusal."""
    for status, response in operation["responses"].items():
        headers = response.setdefault("headers", {})
        headers[VERSION_HEADER] = {"schema": {"const": VERSION}, "required": True}
        if status == "401":
            headers["WWW-Authenticate"] = {"schema": {"type": "string"}, "required": True}
        if status == "429":
            headers["Retry-After"] = {"schema": {"type": "string"}}
    if _ref("HTTPValidationError") == operation["responses"].get("422", {}).get("content", {}).get(JSON, {}).get(
        "schema"
    ):
        del operation["responses"]["422"]
