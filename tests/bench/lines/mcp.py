"""`tools/call` beside the HTTP call."""

from tests.bench.figures import Figure
from tests.bench.lab import FREE, Lab, Taken, one_by_one, saturate
from tests.bench.load import Ask

_REVISION = "2026-07-28"
_META = "io.modelcontextprotocol/"


def measure(lab: Lab) -> list[Figure]:
    own, scale = lab.product(), lab.scale
    http, mcp = Taken(), Taken()
    for n in range(scale.rounds):
        lab.say(f"mcp: round {n + 1} of {scale.rounds}")
        for taken, dressed in ((http, list[Ask]), (mcp, _over_mcp)):
            saturate(taken, dressed(own.refunds(scale.many, FREE)), own.pids, "200 executed")
            one_by_one(taken, dressed(own.refunds(scale.few, FREE)), "200 executed")
    return [
        Figure(
            "p50 of one client, to HTTP", mcp.p50 / http.p50, "×", 1.3, "most", f"{mcp.p50:.1f} to {http.p50:.1f} ms"
        ),
        Figure("CPU of a call, to HTTP", mcp.cpu / http.cpu, "×", beside=f"{mcp.cpu:.1f} to {http.cpu:.1f} ms"),
        Figure("rate, to HTTP", mcp.rate / http.rate, "×", beside=f"{mcp.rate:.1f}/s to {http.rate:.1f}/s"),
    ]


def _over_mcp(asks: list[Ask]) -> list[Ask]:
    """The same calls as a client of the current revision sends them."""
    return [_dressed(ask) for ask in asks]


def _dressed(ask: Ask) -> Ask:
    called = ask.body or {}
    meta = {
        f"{_META}protocolVersion": _REVISION,
        f"{_META}clientInfo": {"name": "bench", "version": "1"},
        f"{_META}clientCapabilities": {},
    }
    params = {"name": called["tool"], "arguments": called["arguments"], "_meta": meta}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": _REVISION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": called["tool"],
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return Ask(f"{ask.url.removesuffix('/v1/tool-calls')}/mcp", ask.token, body, headers)
