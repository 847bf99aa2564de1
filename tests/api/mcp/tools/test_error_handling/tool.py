"""A read that refuses every call, as the conformance suite wants one."""

from tools.test_simple_text.tool import Nothing, Text

from gateways.protocols import Systems
from schemas.calls import Binding
from schemas.codes import Code
from schemas.replies import Explanation
from tools.protocol import ReadTool, Refusal


class ErrorHandling(ReadTool[Nothing, Text]):
    name = "test_error_handling"
    arguments_model = Nothing
    result_model = Text

    async def read(self, arguments: Nothing, binding: Binding, systems: Systems) -> Text | Refusal:
        said = Explanation(values={"problem": "this tool refuses every call"})
        return Refusal(code=Code.INVALID_INPUT, explanation=said)

    def is_empty(self, result: Text) -> bool:
        return False

    def done(self, arguments: Nothing, result: Text | None) -> str:
        return "refused"


TOOL = ErrorHandling()
