"""Connections through a pooler in session mode, which refuses what it does not know to reset."""

import asyncio

import pytest

from ledger.database import UNAVAILABLE, connect

# https://www.pgbouncer.org/config.html#ignore_startup_parameters
TAKEN = {
    "user",
    "database",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
    "application_name",
}


async def test_a_connection_is_opened_with_what_poolers_take() -> None:
    said: list[str] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # https://www.postgresql.org/docs/current/protocol-message-formats.html: StartupMessage
        length = int.from_bytes(await reader.readexactly(4))
        said.extend((await reader.readexactly(length - 4))[4:].decode().split("\0"))
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UNAVAILABLE):
            await connect(f"postgresql://anybody@127.0.0.1:{port}/any?sslmode=disable")
    assert {"user", "database"} <= set(said[:-2:2]) <= TAKEN
