"""Every block of every page is run as its reader would, on the session's stack, and prints what the page says."""

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from policy.load import DEFAULT_POLICY
from tests.api.parked import park
from tests.docs.examples import examples, session_pages, settled
from tests.docs.forking import stub
from tests.docs.how_to import write_tool
from tests.docs.sessions import Shell
from tests.docs.written import ROOT
from tests.e2e.running import RunningStack
from tests.gateways.peers.programs import PEERS, node
from tests.ledger.refunds import decide

KEYS = "docs/keys.md"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
_LAUNCHER = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
WIDTH = {"COLUMNS": "150"}
PASSWORD = "a long password of the tests"

# What a reader has when they come to a page, as shell; `add` makes a person.
BEFORE = {
    "docs/how-to/ask-people.md": "add ada; add mei",
    KEYS: "echo y > .typed",  # to whether it shall be so
    "docs/how-to/sign-in-with-openid-connect.md": "add ana; add ana.admin",
    "docs/operations.md": """mkdir kept; cp "$COUNTERSEAL_DATA"/checkpoints.jsonl kept/
until counterseal diagnostics act_… > /dev/null 2>&1; do sleep 0.1; done""",  # it is written in the background
}
# Whom pages speak of; each page has people of its own, since what it does to them lasts. The quickstart's are those of
# the stack.
_PERSON = re.compile(r"(?<= )(ana\.admin|ana|ada|mei|olga)(?= |;|$)", re.MULTILINE)
_WITH_THE_STACKS_PEOPLE = "docs/quickstart.md"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for the PATH: `counterseal`, quick to start; this Python; `npx` with the package of the pages; and the
    stack's `temporal`."""
    folder = tmp_path_factory.mktemp("programs")
    address = folder / "counterseal.socket"
    for name, script in (
        ("counterseal", stub(address)),
        ("pytest", f'#!/bin/sh\nexec "{sys.executable}" -m pytest -q -p no:cacheprovider "$@"\n'),
        ("temporal", f'#!/bin/sh\nexec "{Path(sys.executable).with_name("temporal")}" "$@"\n'),
        ("python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'),
        ("npx", f'#!/bin/sh\n[ "$1" = {INSPECTOR} ] && shift && exec "{node()}" "{PEERS / _LAUNCHER}" "$@"\n'),
    ):
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o755)
    command = [sys.executable, "-m", "tests.docs.forking", str(address)]
    server = subprocess.Popen(command, env={**os.environ, **WIDTH}, cwd=ROOT)
    deadline = time.monotonic() + 60
    while not address.exists():
        assert server.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield folder
    server.kill()
    server.wait(10)


@dataclass(frozen=True)
class Named:
    """What is really there under the ids that pages give as examples."""

    request_id: str
    refused_id: str
    approval_id: str
    workflow_id: str
    run_token: str
    token_id: str


@pytest.fixture(scope="module")
def named(stack: RunningStack, programs: Path) -> Named:
    """A refund that was approved and executed, its run, and a token."""
    customer = stack.order(paid=100_000)
    key = secrets.token_hex(16)
    request_id = customer.refund(31_240, key=key).json()["request_id"]
    approval_id = customer.waiting()["approval_id"]
    assert customer.decide("approve").status_code == 200
    assert customer.progress(request_id)["status"] == "executed"
    issued = subprocess.run(
        [programs / "counterseal", "tokens", "issue", "service", "of-a-page"],
        env={"COUNTERSEAL_DATA": str(stack.data)},
        capture_output=True,
        text=True,
        check=True,
    )
    token_id = re.search(r"tok_[0-9a-f]{16}", issued.stderr)
    assert token_id is not None
    return Named(
        request_id,
        customer.refund(0).json()["request_id"],
        approval_id,
        f"call/default/issue_refund/{hashlib.sha256(key.encode()).hexdigest()}",
        customer.token,
        token_id[0],
    )


@dataclass(frozen=True)
class Desk:
    """Where the reader of a page sits: a folder, and a shell in it."""

    folder: Path
    shell: Shell
    instead: dict[str, Callable[[], str]]
    """What stands for something of the reader's own, and what is there in its place."""

    def run(self, block: str) -> str:
        for example, real in self.instead.items():
            if example in block:
                block = block.replace(example, real())
        return self.shell.run(block)


@pytest.fixture
def variables(stack: RunningStack, programs: Path) -> dict[str, str]:
    """The environment of a page's shell."""
    return {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "COUNTERSEAL_DATA": str(stack.data),
        "TEMPORAL_ADDRESS": stack.info["temporal"],
        **WIDTH,
    }


@pytest.fixture
async def ledger_of_its_own(variables: dict[str, str], database: str, tmp_path: Path) -> None:
    """For a page that changes master keys: a database that no process works on, its key, and a customer in it."""
    opened = await connect(database)
    ledger = Ledger.over(opened, MasterKey(bytes(32)))
    parked = await park(ledger, tenant="acme", customer_id="cus_0123456789")
    await decide(ledger, parked, verdict="deny", approver="mei", reason="an example")
    await opened.close()
    key = tmp_path / "master.key"
    key.write_text(base64.b64encode(bytes(32)).decode())
    del variables["COUNTERSEAL_DATA"]
    variables |= {
        "COUNTERSEAL_DATABASE_URL": database,
        "COUNTERSEAL_MASTER_KEY_FILE": str(key),
    }


@pytest.fixture
def desk(stack: RunningStack, variables: dict[str, str], named: Named, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "policies").mkdir()
    for name in ("policies/refunds.yaml", "policies/next.yaml", "candidate.yaml"):
        shutil.copy(DEFAULT_POLICY, tmp_path / name)
    for tool in ("send_money", "track_order"):
        write_tool(tmp_path / "our_tools", tool)
    shell = Shell(tmp_path, variables, typed=f"{PASSWORD}\n")
    shell.run(f'add() {{ counterseal users add "$1" --role finance <<< "{PASSWORD}" > /dev/null; }}')

    def verifier_key() -> str:
        return json.loads((tmp_path / "audit" / "keys.json").read_text())["verifier_keys"][0]

    def new_master_key() -> str:
        listed = json.loads(shell.run("counterseal keys list --json"))["keys"]
        return [each["key_id"] for each in listed if not each["needed_by"]][-1]

    def trace() -> str:
        return json.loads(shell.run(f"counterseal calls show {named.request_id} --json"))["trace"]

    yield Desk(
        tmp_path,
        shell,
        {
            "mk_0123456789abcdef": new_master_key,
            "4bf92f3577b34da6a3ce929d0e0e4736": trace,
            "http://127.0.0.1:8080": lambda: stack.info["api"],
            "https://counterseal.example": lambda: stack.info["api"],
            "https://approvals.example.com": lambda: stack.info["api"],
            "call/default/issue_refund/…": lambda: named.workflow_id,
            "act_0123456789abcdef0123456789abcdef": lambda: named.request_id,
            "diagnostics act_…": lambda: f"diagnostics {named.refused_id}",
            "act_…": lambda: named.request_id,
            "apr_…": lambda: named.approval_id,
            "tok_0123456789abcdef": lambda: named.token_id,
            "COUNTERSEAL_RUN_TOKEN=…": lambda: f"COUNTERSEAL_RUN_TOKEN={named.run_token}",
            "counterseal.ledger/…+…+…": verifier_key,
        },
    )
    shell.close()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("page", sorted({*session_pages("sh")} - {KEYS}))
def test_a_page_does_what_it_says(page: str, desk: Desk) -> None:
    read(page, desk)


@pytest.mark.usefixtures("ledger_of_its_own")
def test_the_page_about_keys_does_what_it_says(desk: Desk) -> None:
    read(KEYS, desk)


def read(page: str, desk: Desk) -> None:
    """Run what the page has, from its beginning to its end."""
    mark = secrets.token_hex(3)

    def own(block: str) -> str:
        return block if page == _WITH_THE_STACKS_PEOPLE else _PERSON.sub(rf"\1-{mark}", block)

    desk.run(own(BEFORE.get(page, "")))
    printed = ""
    for example in examples(ROOT / page):
        if example.prints:
            assert settled(printed) == settled(example.content), f"{example} prints:\n{printed}"
        elif example.is_run and example.language == "sh":
            assert not example.leaves_its_folder, f"{example} would leave its folder: say why it is not run"
            printed = desk.run(own(example.content))
