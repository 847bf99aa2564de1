"""A tool that reads by calling one of an upstream's."""

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.tools import Manifest
from tools.declared.read import DeclaredRead, read_values
from tools.mcp.calling import fetch
from tools.mcp.document import McpDocument, Read
from tools.mcp.words import UpstreamResult, words_of
from tools.protocol import Arguments, Refusal

# Of the bytes that a result may have, those that are not the words': its own fields, the source and the time.
_SHARE_OF_FIELDS = 4


class McpRead(DeclaredRead):
    """Built from a document that `tools.mcp.checking` found nothing wrong with."""

    def __init__(self, manifest: Manifest, document: McpDocument, read: Read) -> None:
        super().__init__(manifest.name, document, system=document.upstream, total=read.total, base=UpstreamResult)
        self.document, self._read = document, read
        fields = manifest.result_max_bytes // _SHARE_OF_FIELDS if document.result else 256
        self._most_words = manifest.result_max_bytes - fields

    async def read(self, arguments: Arguments, binding: Binding, systems: Systems) -> Model | Refusal:
        document, upstream = self.document, systems.upstream(self.document.upstream)
        values = read_values(arguments, binding)
        answer = await fetch(upstream, self._read, values, error=document.error, what="record")
        if isinstance(answer, Refusal):
            return answer
        words = words_of(answer, document.texts, document.upstream, self._read.tool, self._most_words)
        return self.result_of(answer.content, words)

    def is_empty(self, result: Model) -> bool:
        return super().is_empty(result) and getattr(result, "untrusted", None) is None
