"""For the tests of a tool: what it must refuse, made of its manifest and schema, and what its policy decides."""

from runtime.testing.cases import RedCase
from runtime.testing.tool import ToolUnderTest

__all__ = ["RedCase", "ToolUnderTest"]
