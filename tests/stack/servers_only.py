"""A stack of Postgres and Temporal alone, as a program: `python servers_only.py DATA READY_FILE [PORT]`."""

import asyncio
import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runtime.stack.connection import data_folder
from runtime.stack.credentials import Credentials
from runtime.stack.errors import StackError
from runtime.stack.running import run_stack
from runtime.stack.services import Stack
from runtime.stack.supervisor import Service


async def nobody(
    database_url: str, credentials: dict[str, Any], master_key: Path, system_keys: Mapping[str, str]
) -> None:
    """No principals: nothing here asks for them."""


class ServersOnly(Stack):
    def services(self) -> list[Service]:
        servers = [service for service in super().services() if service.name in ("postgres", "temporal")]
        return [
            dataclasses.replace(service, setup=self.postgres.ensure_database) if service.name == "postgres" else service
            for service in servers
        ]


def main(data: str, ready_file: str, port: str = "0") -> None:
    folder = data_folder(Path(data))

    def compose(ports: Mapping[str, int], credentials: Credentials) -> Stack:
        return ServersOnly(folder, ports, credentials, caller={}, seed=nobody)

    def say(what: object) -> None:
        sys.stdout.write(f"{what}\n")
        sys.stdout.flush()

    try:
        running = run_stack(
            folder, compose, report=say, started=lambda _: say("up"), port=int(port), ready_file=Path(ready_file)
        )
        asyncio.run(running)
    except StackError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
