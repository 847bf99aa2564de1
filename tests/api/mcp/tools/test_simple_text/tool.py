"""A read without arguments, as the conformance suite calls it."""

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from tools.protocol import Arguments, ReadTool, Refusal


class Nothing(Arguments):
    pass


class Text(Model):
    text: str


class SimpleText(ReadTool[Nothing, Text]):
    name = "test_simple_text"
    arguments_model = Nothing
    result_model = Text

    async def read(self, arguments: Nothing, binding: Binding, systems: Systems) -> Text | Refusal:
        return Text(text="This is a simple text response for testing.")

    def is_empty(self, result: Text) -> bool:
        return False

    def done(self, arguments: Nothing, result: Text | None) -> str:
        return "said a text"


TOOL = SimpleText()
