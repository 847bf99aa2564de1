"""A read whose arguments need a definition, and say the dialect of their schema."""

from pydantic import ConfigDict
from tools.test_simple_text.tool import Text

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from tools.protocol import Arguments, ReadTool, Refusal


class address(Model):  # noqa: N801 - the suite looks for a definition of this name
    street: str
    city: str


class Person(Arguments):
    model_config = ConfigDict(json_schema_extra={"$schema": "https://json-schema.org/draft/2020-12/schema"})

    name: str
    address: address


class SchemaTool(ReadTool[Person, Text]):
    name = "json_schema_2020_12_tool"
    arguments_model = Person
    result_model = Text

    async def read(self, arguments: Person, binding: Binding, systems: Systems) -> Text | Refusal:
        return Text(text=arguments.name)

    def is_empty(self, result: Text) -> bool:
        return False

    def done(self, arguments: Person, result: Text | None) -> str:
        return "named a person"


TOOL = SchemaTool()
