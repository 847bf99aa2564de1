"""Envelopes of requests: strict models, and refusals that name known fields only."""

from typing import TypeVar

from pydantic import JsonValue, ValidationError

from api.problems import refuse
from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation

M = TypeVar("M", bound=Model)


def parse(model: type[M], content: dict[str, JsonValue]) -> M:
    """`content` as `model` (whose sequences are tuples given as JSON arrays). Raises Refused with INVALID_INPUT."""
    try:
        return model.model_validate(content, strict=None)
    except ValidationError as problem:
        errors = problem.errors(include_input=False, include_url=False, include_context=False)
    known = {str(error["loc"][0]) for error in errors if error["loc"]} & set(model.model_fields)
    unknown = any(error["type"] == "extra_forbidden" for error in errors)
    said = [f"check {', '.join(sorted(known))}"] if known else []
    said += ["there is a field that this request does not have"] if unknown else []
    explanation = Explanation(
        values={"problem": "; ".join(said) or "it does not have the right form"},
        invalid_fields=tuple(sorted(known)) or None,
    )
    raise refuse(Code.INVALID_INPUT, explanation)
