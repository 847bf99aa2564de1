"""`counterseal keys`: the file, the database and what is told of them; no key is ever shown."""

import base64
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger.keys import MasterKey
from ledger.ledger import Ledger
from runtime.cli import keys as command
from runtime.cli.keys import payload_key_id
from tests.api.parked import park
from tests.cli.conftest import Run

OLD = base64.b64encode(bytes(32)).decode()


class _Temporal:
    """Stands for Temporal's client: the histories of workflows that run, as JSON."""

    def __init__(self, *histories: str) -> None:
        self._histories = histories

    def list_workflows(self, query: str) -> "_Temporal":
        assert query == "ExecutionStatus = 'Running'"
        return self

    async def map_histories(self) -> AsyncIterator[Any]:
        for each in self._histories:
            yield type("History", (), {"to_json": lambda _, each=each: each})()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The histories of the workflows that run; a test adds to them."""
    histories: list[str] = []

    async def opened(*_: Any) -> _Temporal:
        return _Temporal(*histories)

    monkeypatch.setattr(command, "open_temporal", opened)
    return histories


def _file(tmp_path: Path) -> Path:
    return tmp_path / "master.key"


async def _listed(run: Run) -> list[dict[str, Any]]:
    ran = await run("keys", "list", "--json")
    assert ran.status == 0, ran.err
    return ran.json["keys"]


async def test_one_process_changes_its_key_in_three_commands(
    run: Run, ledger: Ledger, tmp_path: Path, running: list[str]
) -> None:
    await park(ledger)
    _file(tmp_path).chmod(0o640)
    (only,) = await _listed(run)
    assert (only["current"], only["needed_by"]) == (True, {"data keys": 1, "orders to find": 1})
    assert (await run("keys", "rotate")).status == 0
    new, old = _file(tmp_path).read_text().split()
    assert (old, new != OLD, stat.S_IMODE(_file(tmp_path).stat().st_mode)) == (OLD, True, 0o640)
    first, second = await _listed(run)
    assert (first["needed_by"], second["key_id"]) == ({}, only["key_id"])
    running.append(json.dumps({"metadata": {"encryption-key-id": _name(OLD)}}))
    ran = await run("keys", "rewrap")
    assert (ran.status, "1 data keys put under" in ran.out) == (0, True)
    assert [each["needed_by"] for each in await _listed(run)] == [
        {"data keys": 1, "orders to find": 1},
        {"open workflows": 1},
    ]
    running.clear()
    ran = await run("keys", "list")
    assert "nothing any more" in ran.out
    _file(tmp_path).write_text(new)
    assert (await run("calls", "list")).status == 0
    assert len(await _listed(run)) == 1
    assert (await run("keys", "rewrap")).out == "nothing was under another key\n"


def _name(key: str) -> str:
    return base64.b64encode(payload_key_id(MasterKey(base64.b64decode(key)).current).encode()).decode()


async def test_several_processes_learn_a_key_before_one_of_them_uses_it(
    run: Run, ledger: Ledger, tmp_path: Path, running: list[str]
) -> None:
    ran = await run("keys", "rotate", "--prepare")
    assert (ran.status, "--use" in ran.out) == (0, True)
    old, new = _file(tmp_path).read_text().split()
    assert old == OLD
    prepared = (await _listed(run))[1]
    assert (prepared["current"], prepared["needed_by"]) == (False, {})
    assert (await run("keys", "rotate", "--use", prepared["key_id"])).status == 0
    assert _file(tmp_path).read_text().split() == [new, old]
    ran = await run("keys", "rotate", "--use", "mk_0000000000000000")
    assert (ran.status, "there is no key" in ran.complaint) == (1, True)
    assert _file(tmp_path).read_text().split() == [new, old]


async def test_a_key_that_is_gone_too_early_is_missed(
    run: Run, ledger: Ledger, tmp_path: Path, running: list[str]
) -> None:
    await park(ledger)
    await run("keys", "rotate")
    new, _ = _file(tmp_path).read_text().split()
    _file(tmp_path).write_text(new)
    current, nameless = await _listed(run)
    assert (current["needed_by"], nameless["key_id"], nameless["needed_by"]["data keys"]) == ({}, None, 1)
    assert "keep them all" in (await run("keys", "list")).out
    ran = await run("keys", "rewrap")
    assert (ran.status, ran.complaint) == (
        1,
        "counterseal: under none of the keys that are here: 1 data keys, 1 orders to find",
    )


async def test_a_customers_key_is_changed(run: Run, ledger: Ledger, running: list[str]) -> None:
    approval = await park(ledger)
    ran = await run("keys", "rotate", "--customer", approval.customer_id, "--tenant", approval.tenant)
    assert (ran.status, "new key" in ran.out) == (0, True)
    ran = await run("keys", "rotate", "--customer", "cus_nobody", "--tenant", approval.tenant)
    assert (ran.status, "no data key" in ran.complaint) == (1, True)
    assert (await run("calls", "show", approval.request_id)).status == 0


@pytest.mark.parametrize(
    "options",
    [
        ["--customer", "cus_1"],
        ["--tenant", "acme"],
        ["--prepare", "--use", "mk_1"],
        ["--prepare", "--customer", "cus_1", "--tenant", "acme"],
    ],
)
async def test_what_goes_together_is_said(run: Run, ledger: Ledger, options: list[str]) -> None:
    assert (await run("keys", "rotate", *options)).status == 2


async def test_a_key_in_the_environment_or_behind_a_link_is_not_ours_to_change(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link.key"
    link.symlink_to(_file(tmp_path))
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(link))
    ran = await run("keys", "rotate")
    assert (ran.status, "is a link" in ran.complaint, _file(tmp_path).read_text()) == (1, True, OLD)
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY", f"{base64.b64encode(b'n' * 32).decode()} {OLD}")
    ran = await run("keys", "rotate")
    assert (ran.status, "COUNTERSEAL_MASTER_KEY" in ran.complaint) == (1, True)
    # Several stand there as in a file.
    assert (await run("calls", "list")).status == 0


async def test_no_command_shows_a_key(run: Run, ledger: Ledger, tmp_path: Path, running: list[str]) -> None:
    ran = [await run("keys", "rotate", "--prepare"), await run("keys", "rotate"), await run("keys", "list")]
    ran += [await run("keys", "list", "--json"), await run("keys", "rewrap"), await run("keys", "rewrap", "--json")]
    said = "".join(each.out + each.err for each in ran)
    keys = _file(tmp_path).read_text().split()
    assert len(keys) == 3
    for key in keys:
        assert key not in said
        assert base64.b64decode(key).hex() not in said
