"""Envelopes of requests: strict models, and refusals that name known fields only."""

from typing import TypeVar

from pydantic import JsonValue, ValidationError

from api.problems import refuse
from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation
from tools.arguments import explain

M = TypeVar("M", bound=Model)


def parse(model: type[M], content: dict[str, JsonValue]) -> M:
    """`content` as `model` (whose sequences are lists). Raises Refused: INVALID_INPUT, saying what would fit."""
    try:
        return model.model_validate(content)
    except ValidationError as problem:
        fields, problems = explain(model, problem, "this request")
    raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": "; ".join(problems)}, invalid_fields=tuple(fields)))
