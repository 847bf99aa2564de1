"""`counterseal up` as a person runs it: announced and stopped."""

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from runtime.stack.child import wait_until_ended


@contextmanager
def up(data: Path, ready_file: Path) -> Generator["subprocess.Popen[str]"]:
    arguments = ["up", "--data", str(data), "--ready-file", str(ready_file)]
    with subprocess.Popen(
        [sys.executable, "-m", "runtime.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def until_ready(process: "subprocess.Popen[str]", ready_file: Path) -> dict[str, object]:
    assert process.stdout is not None
    for line in process.stdout:
        if "└" in line:  # the last line of the table of addresses
            return json.loads(ready_file.read_text())
    pytest.fail(f"ended with status {process.wait()}")


def test_a_stack_is_announced_and_stopped(tmp_path: Path) -> None:
    data, ready_file = tmp_path / "data", tmp_path / "ready.json"
    with up(data, ready_file) as process:
        first = until_ready(process, ready_file)
        assert set(first) == {
            *("api", "temporal", "temporal_ui", "namespace", "task_queue", "database", "sandbox"),
            *("service_token", "operator_token", "approvers", "pids"),
        }
        assert stat.S_IMODE(ready_file.stat().st_mode) == 0o600
        children = psutil.Process(process.pid).children(recursive=True)
        pids = first["pids"]
        assert isinstance(pids, dict)
        announced = {pids["postgres"], pids["temporal"], pids["api"], pids["sandbox"], *pids["workers"]}
        assert announced <= {child.pid for child in children}
        for url in (f"{first['api']}/healthz", f"{first['api']}/readyz", str(first["temporal_ui"])):
            assert httpx.get(url, trust_env=False, follow_redirects=True).status_code == 200
        assert httpx.get(f"{first['api']}/v1/approvals", trust_env=False).status_code == 401
        approver = {"Authorization": f"Bearer {first['approvers'][0]['token']}"}  # type: ignore[index]
        assert httpx.get(f"{first['api']}/v1/approvals", headers=approver, trust_env=False).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
        assert wait_until_ended(children, seconds=20) == []
        assert not ready_file.exists()
