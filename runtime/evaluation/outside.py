"""The system behind the tools that come with the evaluation set, in a process of its own."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from runtime.stack.environment import PRIVATE_NETWORKS, SANDBOX_SYSTEMS
from runtime.systems import read_systems

TOOLS = Path(__file__).parent / "tools"
OUTBOX = "outbox"
TOOLS_PATH, SYSTEMS = "COUNTERSEAL_TOOLS_PATH", "COUNTERSEAL_SYSTEMS"


@dataclass(frozen=True, slots=True)
class Outbox:
    """Where it answers, and the key that callers have to show."""

    url: str
    key: str


@asynccontextmanager
async def outbox() -> AsyncGenerator[Outbox]:
    """An outbox that runs as long as this context. Raises OSError when it does not start."""
    key = secrets.token_hex(24)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        *("-m", "sandbox.outbox"),
        env={"PATH": os.environ.get("PATH", ""), "SANDBOX_OUTBOX_KEY": key},
        stdout=asyncio.subprocess.PIPE,
        # The terminal's Ctrl-C is for the stack, which stops first.
        start_new_session=True,
    )
    try:
        said = await process.stdout.readline() if process.stdout else b""
        if not said:
            raise OSError("the sandbox's outbox did not start")
        yield Outbox(json.loads(said)["url"], key)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def environment(caller: Mapping[str, str], url: str) -> dict[str, str]:
    """What a stack is told that is to have the set's tools, beside what its caller says already: a folder of tools of
    the caller's stays the one. Raises ValueError for systems of the caller's that mean nothing."""
    systems = {**read_systems(caller.get(SYSTEMS, "{}")), OUTBOX: url}
    private = ",".join(filter(None, (caller.get(PRIVATE_NETWORKS, SANDBOX_SYSTEMS), OUTBOX)))
    tools = caller.get(TOOLS_PATH) or str(TOOLS)
    return {TOOLS_PATH: tools, SYSTEMS: json.dumps(systems), PRIVATE_NETWORKS: private}
