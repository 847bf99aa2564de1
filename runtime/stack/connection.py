"""How commands and tests find a running embedded stack: the file that `counterseal up` maintains."""

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from runtime.stack.child import recorded_process
from runtime.stack.errors import StackError
from runtime.stack.files import DataFolder

DEFAULT_DATA = Path(".counterseal")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Approver(_Frozen):
    username: str
    password: str
    token: str


class SandboxUrls(_Frozen):
    gateway: str
    store: str
    helpdesk: str


class Pids(_Frozen):
    postgres: int
    temporal: int
    api: int
    workers: list[int]
    sandbox: int


class StackInfo(_Frozen):
    """The content of the ready file: addresses (URLs, host:port), sign-ins and process ids of a running stack."""

    api: str
    temporal: str
    temporal_ui: str
    namespace: Literal["default"]
    task_queue: Literal["counterseal"]
    database: str
    sandbox: SandboxUrls
    service_token: str
    operator_token: str
    approvers: list[Approver]
    pids: Pids


def data_folder(data: Path | None = None) -> DataFolder:
    """The data folder meant by `--data`, else by COUNTERSEAL_DATA, else the default in the current folder."""
    chosen = data or Path(os.environ.get("COUNTERSEAL_DATA") or DEFAULT_DATA)
    return DataFolder(chosen.expanduser().absolute())


def find_stack(data: Path | None = None) -> StackInfo:
    """The stack running on that data folder. Raises StackError when there is none."""
    folder = data_folder(data)
    missing = StackError(f"no stack is running on {folder.root}: start one with `counterseal up --data {folder.root}`")
    if recorded_process(folder.lock) is None:
        raise missing
    try:
        return StackInfo.model_validate_json(folder.connection.read_bytes())
    except FileNotFoundError:
        raise missing from None
    except (OSError, ValidationError):
        raise StackError(f"{folder.connection} cannot be read: is it another user's stack?") from None
