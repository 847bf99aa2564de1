"""`counterseal up` without its terminal: one stack from lock to clean stop."""

import asyncio
import signal
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from runtime.stack.child import end_leftovers
from runtime.stack.connection import StackInfo
from runtime.stack.credentials import Credentials, load_or_create
from runtime.stack.errors import StackError
from runtime.stack.files import DataFolder, write_private
from runtime.stack.lock import exclusive
from runtime.stack.ports import PortClaims, choose
from runtime.stack.services import PREFERRED_PORTS, Stack
from runtime.stack.supervisor import Supervisor


async def run_stack(
    folder: DataFolder,
    compose: Callable[[Mapping[str, int], Credentials], Stack],
    *,
    report: Callable[[str], None],
    started: Callable[[StackInfo], None],
    port: int | None = None,
    ready_file: Path | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Run a stack on `folder` until `stop` is set, or SIGINT, SIGTERM or SIGHUP; one more signal kills what still runs.

    `compose` makes the stack, given its ports and sign-ins. `report` gets progress lines, `started` the stack's
    addresses and sign-ins, once, when everything answers. `port` is the one asked for the API. Raises StackError when
    the stack cannot start or go on; nothing is left running then.
    """
    try:
        folder.create()
    except OSError as error:
        raise StackError(f"cannot use {folder.root} as the data folder: {error.strerror}") from None
    with exclusive(folder), PortClaims() as claims:
        for path in _announcements(folder, ready_file):
            path.unlink(missing_ok=True)
        for name in await asyncio.to_thread(end_leftovers, folder.run):
            report(f"stopped {name}, left running by an earlier stack")
        ports = choose(PREFERRED_PORTS, folder.ports, claims, asked={"api": port} if port else None)
        stack = compose(ports, load_or_create(folder.credentials))
        await _supervise(stack, ready_file, report, started, stop or asyncio.Event())


async def _supervise(
    stack: Stack,
    ready_file: Path | None,
    report: Callable[[str], None],
    started: Callable[[StackInfo], None],
    stop: asyncio.Event,
) -> None:
    announced = _announcements(stack.folder, ready_file)
    first = True

    def changed(pids: dict[str, int]) -> None:
        nonlocal first
        info = stack.info(pids)
        for path in announced:
            write_private(path, info.model_dump_json(indent=1))
        if first:
            first = False
            started(info)

    supervisor = Supervisor(
        stack.services(), logs=stack.folder.logs, run=stack.folder.run, report=report, changed=changed
    )
    try:
        async with stack.ui():
            with _stop_signals(supervisor, report, stop):
                await supervisor.run(stop)
    finally:
        for path in announced:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _announcements(folder: DataFolder, ready_file: Path | None) -> list[Path]:
    return [folder.connection] if ready_file is None else [folder.connection, ready_file]


@contextmanager
def _stop_signals(supervisor: Supervisor, report: Callable[[str], None], stop: asyncio.Event) -> Generator[None]:
    """The first stop signal sets `stop`; one that comes when it is set makes the supervisor hurry."""

    def on_signal() -> None:
        if stop.is_set():
            supervisor.hurry()
        else:
            report("stopping (once more to hurry)")
            stop.set()

    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
