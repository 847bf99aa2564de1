"""A read that takes long enough for three words of progress."""

import asyncio

from tools.test_simple_text.tool import Nothing, Text

from gateways.protocols import Systems
from schemas.calls import Binding
from tools.protocol import ReadTool, Refusal


class WithProgress(ReadTool[Nothing, Text]):
    name = "test_tool_with_progress"
    arguments_model = Nothing
    result_model = Text

    async def read(self, arguments: Nothing, binding: Binding, systems: Systems) -> Text | Refusal:
        await asyncio.sleep(4)
        return Text(text="It took a while.")

    def is_empty(self, result: Text) -> bool:
        return False

    def done(self, arguments: Nothing, result: Text | None) -> str:
        return "took a while"


TOOL = WithProgress()
