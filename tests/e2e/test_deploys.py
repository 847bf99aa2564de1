"""Deploys: builds side by side, a call that waits over one, rolling back, moving on, and stopping in the middle."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.main import run
from runtime.stack.postgres import Postgres
from tests.e2e.processes import ROOT, Ground, Program, ground
from tests.e2e.running import Customer, RunningStack
from tests.service import PATIENCE, SANDBOX_KEY

HOLDS = {"COUNTERSEAL_SANDBOX_GATEWAY_KEY": SANDBOX_KEY, "COUNTERSEAL_STORE_KEY": SANDBOX_KEY}


@dataclass(frozen=True)
class Deployed:
    """One API; workers of builds come and go beside it."""

    over: Ground
    api: Program
    stack: RunningStack
    opened: ExitStack

    def environment(self, build: str) -> dict[str, str]:
        code = self.over.folder / "code"
        path = f"{code}{os.pathsep}{ROOT}" if build == "two" else str(ROOT)
        return {**HOLDS, "COUNTERSEAL_BUILD_ID": build, "PYTHONPATH": path}

    def worker(self, build: str) -> Program:
        started = self.opened.enter_context(self.over.program(f"worker-{build}", ["worker"], self.environment(build)))
        started.until_ready()
        return started

    def command(self, *arguments: str, build: str = "") -> subprocess.CompletedProcess[str]:
        """`counterseal versions`; with a build, as a process that has its code."""
        if not build:
            return self.counterseal("versions", *arguments)
        return subprocess.run(
            [sys.executable, "-m", "runtime.cli.main", "versions", *arguments],
            cwd=self.over.folder,
            env={**self.over.environment, **self.environment(build)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def counterseal(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The program with the settings of the ground, in this process: its imports are here already."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in self.over.environment.items():
                patch.setenv(name, value)
            status = run(list(arguments))
        return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())

    def promote(self, build: str) -> None:
        done = self.command("promote", build)
        assert (done.returncode, done.stdout) == (0, f"New calls begin on build {build}.\n"), done.stderr

    def builds(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(self.command("list", "--json").stdout)
        return {each["build_id"]: each for each in listed["builds"]}

    def parked(self) -> tuple[Customer, str]:
        customer = self.stack.order()
        reply = customer.refund(31_240).json()
        assert reply["status"] == "pending_approval", reply
        return customer, reply["request_id"]

    def approved(self, customer: Customer, request_id: str) -> None:
        assert customer.decide("approve").json() == {"status": "approved"}
        assert customer.progress(request_id)["status"] == "executed"
        assert ([each["amount"] for each in customer.effects()], customer.posts()) == ([31_240], 1)


@pytest.fixture(scope="module")
def deployed(
    postgres_server: Postgres, migrated_template: str, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Deployed]:
    folder = tmp_path_factory.mktemp("deploys")
    with ground(postgres_server, migrated_template, temporal_server, folder) as over, ExitStack() as opened:
        changed_code(folder / "code")
        api = opened.enter_context(over.program("api", ["api"]))
        api.until_ready()
        stack = over.stack(api)
        yield Deployed(over, api, stack, opened)
        stack.http.close()


def changed_code(folder: Path) -> None:
    """Workflow code that says more when a call is held: no history of either code replays with the other."""
    shutil.copytree(ROOT / "workflows", folder / "workflows", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "workflows" / "tool_call.py"
    before = "        self._resting = True\n        try:\n"
    assert file.read_text().count(before) == 1
    more = '        workflow.upsert_memo({"build": "two"})\n'
    file.write_text(file.read_text().replace(before, more + before))


def until_sent(customer: Customer) -> None:
    """The gateway has it; the answer is still on its way."""
    give_up = time.monotonic() + PATIENCE
    while not customer.effects():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_a_call_that_waits_outlives_deploys_and_a_rollback(deployed: Deployed) -> None:
    early = deployed.command("promote", "one", "--wait", "0")
    assert early.returncode == 1
    assert "no worker of build one serves" in early.stderr
    deployed.worker("one")
    deployed.promote("one")
    on_one = deployed.parked()
    waits_too = deployed.parked()

    deployed.worker("two")
    give_up = time.monotonic() + PATIENCE
    while "two" not in (found := deployed.builds()):
        assert time.monotonic() < give_up
    assert {build: each["promoted"] for build, each in found.items()} == {"one": True, "two": False}
    deployed.promote("two")
    on_two = deployed.parked()
    assert deployed.stack.order().refund(4_999).json()["code"] == "OK"
    found = deployed.builds()
    assert {build: each["current"] for build, each in found.items()} == {"one": False, "two": True}
    assert all(each["promoted"] for each in found.values())

    deployed.approved(*on_one)
    deployed.promote("one")
    deployed.approved(*on_two)
    deployed.approved(*deployed.parked())

    # The second build's code parts from what is open on the first one: it takes nothing over.
    refused = deployed.command("adopt", "one", "--json", build="two")
    assert refused.returncode == 1, refused.stderr
    (left,) = json.loads(refused.stdout)["workflows"]
    assert "TMPRL1100" in left["problem"]

    # A third one, whose code is the first one's, does; then the first one is not needed any more.
    deployed.worker("three")
    deployed.promote("three")
    moved = deployed.command("adopt", "one", "--json", build="three")
    assert moved.returncode == 0, moved.stderr + moved.stdout
    assert [each["problem"] for each in json.loads(moved.stdout)["workflows"]] == [None]
    deployed.approved(*waits_too)


def test_a_worker_that_is_stopped_finishes_the_effect_that_it_began(deployed: Deployed) -> None:
    worker = deployed.worker("four")
    deployed.promote("four")
    customer = deployed.stack.order()
    deployed.stack.fault("refund", "delay:2", customer.payment_id)
    replies: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: replies.append(customer.refund(4_999).json()))
    asking.start()
    try:
        until_sent(customer)
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(PATIENCE) == 0
        # Sent and answered; what is left to do is not about money, and any worker of the build does it.
        assert [each["amount"] for each in customer.effects()] == [4_999]
        deployed.worker("four")
    finally:
        asking.join(PATIENCE)
    (reply,) = replies
    assert (reply["status"], customer.posts()) == ("executed", 1)
    told = deployed.counterseal("calls", "events", reply["request_id"], "--json").stdout
    assert "effect.confirmed" in told
    assert "effect.unknown" not in told


def test_an_api_that_is_stopped_answers_whoever_waits(deployed: Deployed) -> None:
    customer = deployed.stack.order()
    deployed.stack.fault("refund", "delay:9", customer.payment_id)
    replies: list[tuple[int, dict[str, Any]]] = []

    def ask() -> None:
        reply = customer.refund(4_999)
        replies.append((reply.status_code, reply.json()))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until_sent(customer)
        deployed.api.process.send_signal(signal.SIGTERM)
    finally:
        asking.join(PATIENCE)
    assert deployed.api.process.wait(PATIENCE) in (0, -signal.SIGTERM)
    ((status, reply),) = replies
    assert (status, reply["status"], reply["action"]) == (202, "in_progress", "wait")
