"""What a tool answered, out of the SDK's types. Pure."""

from collections import Counter

import mcp.types
from pydantic import JsonValue, TypeAdapter, ValidationError

from gateways.upstreams import Called
from schemas import strict_json
from schemas.effects import Exchange

_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)


def called(answer: mcp.types.CallToolResult | int, exchange: Exchange) -> Called:
    """`answer` is a result, or the code of a protocol error."""
    if isinstance(answer, int):
        return Called(None, (), exchange, rpc=answer)
    texts = tuple(part.text for part in answer.content if isinstance(part, mcp.types.TextContent))
    others = Counter(part.type for part in answer.content if not isinstance(part, mcp.types.TextContent))
    return Called(
        _content(answer.structured_content, texts), texts, exchange, is_error=answer.is_error, left_out=dict(others)
    )


def _content(structured: object, texts: tuple[str, ...]) -> JsonValue:
    if structured is not None:
        try:
            return _JSON.validate_python(structured)
        except ValidationError:
            return None
    if len(texts) != 1:
        return None
    try:
        # Servers that know no structured content answer its JSON as a text.
        content = strict_json.loads(texts[0].encode("utf-8", "replace"))
    except strict_json.UnreadableError:
        return None
    return content if isinstance(content, dict) else None
