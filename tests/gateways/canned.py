"""A server that gives one answer, whatever it is asked."""

import asyncio
import json
from collections.abc import Awaitable, Callable

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Handler], Awaitable[str]]


def canned(content: object, status: int = 200) -> Handler:
    """Answers each connection's request, read to its end, with `content` as JSON."""
    body = json.dumps(content)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().casefold()
        if "content-length:" in head:
            await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()

    return answer
