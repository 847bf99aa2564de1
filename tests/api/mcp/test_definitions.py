"""How tools are described, and what origins are."""

from string import Formatter
from typing import Any

import jsonschema
import pytest

from api.mcp.origins import is_origin
from api.mcp.tools import Definitions, reply_schema
from schemas.codes import REGISTRY, Code
from schemas.replies import Explanation, reply_for
from tools.catalog import Catalog


def test_a_definition_is_made_once_of_an_entry_and_again_of_another() -> None:
    entry = Catalog.load().get("issue_refund")
    other = Catalog.load().get("issue_refund")
    assert entry is not None
    assert other is not None
    definitions = Definitions()
    assert definitions.input_schema("issue_refund") is None
    assert definitions.of(entry) is definitions.of(entry)
    assert definitions.of(other) is not definitions.of(entry)
    assert definitions.input_schema("issue_refund") == entry.description.input_schema


def test_an_output_that_defines_what_replies_define_is_refused() -> None:
    clash: dict[str, Any] = {"type": "object", "$defs": {"Code": {"type": "integer"}}}
    with pytest.raises(ValueError, match="defines otherwise"):
        reply_schema(clash)
    same = reply_schema()["$defs"]["Code"]
    assert reply_schema({"type": "object", "$defs": {"Code": same}})["$defs"]["Code"] == same


@pytest.mark.parametrize("code", Code)
def test_every_reply_is_what_the_schema_says(code: Code) -> None:
    values = {name: "something" for _, name, _, _ in Formatter().parse(REGISTRY[code].message) if name}
    said = Explanation(
        values={**values}, invalid_fields=("a",), allowed={"max": 1}, retry_after_seconds=2, use_tool="b"
    )
    reply = reply_for(code, "act_1", said)
    jsonschema.Draft202012Validator(reply_schema()).validate(reply.model_dump(mode="json", exclude_none=True))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://agents.example.com", True),
        ("http://localhost:6274", True),
        ("https://agents.example.com/", False),
        ("agents.example.com", False),
        ("file://", False),
        ("https://", False),
        ("https://[", False),
        ("*", False),
    ],
)
def test_an_origin_is_a_scheme_and_a_host(text: str, expected: bool) -> None:
    assert is_origin(text) is expected
