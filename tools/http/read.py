"""A tool that reads with one GET."""

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from tools.declared.read import DeclaredRead, read_values
from tools.http.document import Get, HttpDocument
from tools.http.reading import fetch
from tools.protocol import Arguments, Refusal


class HttpRead(DeclaredRead):
    """Built from a document that `tools.http.checking` found nothing wrong with."""

    def __init__(self, name: str, document: HttpDocument, get: Get) -> None:
        super().__init__(name, document, system=document.system, total=get.total)
        self._document, self._get = document, get

    async def read(self, arguments: Arguments, binding: Binding, systems: Systems) -> Model | Refusal:
        remote, values = systems.remote(self._document.system), read_values(arguments, binding)
        answer = await fetch(remote, self._get, values, error=self._document.error, what="record")
        return answer if isinstance(answer, Refusal) else self.result_of(answer)
