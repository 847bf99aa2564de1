"""`counterseal vault`: a secret goes in by standard input, and never comes out."""

import io
from pathlib import Path
from typing import Any

import pytest

from ledger.ledger import Ledger
from ledger.vault import NoCredentialError
from tests.cli.conftest import Run

SECRET = "sk_example_4f1d9c2b7e"
TOOL = "issue_refund"


async def _selected(ledger: Ledger, tenant: str = "acme", system: str = "stripe", tool: str = TOOL) -> str:
    # What was read a moment ago counts for a moment; here every look is another process's.
    ledger.credentials._recent.clear()  # pyright: ignore[reportPrivateUsage]
    return (await ledger.credentials.select(tenant, system, tool))[1]


async def test_what_is_put_is_selected_and_what_is_retired_is_not(run: Run, ledger: Ledger) -> None:
    put = await run("vault", "put", "stripe", typed=f"{SECRET}\n")
    assert (put.status, put.err) == (0, "")
    assert await _selected(ledger) == SECRET
    record_id = put.out.strip()
    assert (await run("vault", "retire", record_id)).status == 0
    with pytest.raises(NoCredentialError):
        await _selected(ledger)
    again = await run("vault", "retire", record_id)
    assert again.status == 1
    assert "no such credential in use" in again.complaint


async def test_it_is_bound_to_what_was_said(run: Run, ledger: Ledger) -> None:
    await run("vault", "put", "stripe", typed="everyone's")
    await run("vault", "put", "stripe", "--tenant", "acme", "--tool", TOOL, typed="acme's")
    assert await _selected(ledger) == "acme's"
    assert await _selected(ledger, tool="cancel_order") == "everyone's"
    assert await _selected(ledger, tenant="globex") == "everyone's"
    listed = (await run("vault", "list", "--json")).json["credentials"]
    assert [(each["tenant"], each["tool"], each["system"]) for each in listed] == [
        ("acme", TOOL, "stripe"),
        ("*", "*", "stripe"),
    ]
    assert all(each["created_by"] and each["created_at"] and each["retired_at"] is None for each in listed)


async def test_no_command_says_a_secret(run: Run, ledger: Ledger) -> None:
    ran = [await run("vault", "put", "stripe", typed=SECRET)]
    record_id = ran[0].out.strip()
    ran += [await run("vault", "list"), await run("vault", "list", "--json"), await run("vault", "retire", record_id)]
    ran += [await run("vault", "list"), await run("vault", "put", "nowhere", typed=SECRET)]
    ran += [await run("vault", "put", "stripe", typed=f"{SECRET}\x07"), await run("vault", "put", "stripe", SECRET)]
    said = " ".join(each.out + each.err for each in ran[:-1])
    assert record_id in said
    assert SECRET not in said
    assert SECRET[10:] not in said
    # On the command line, where everyone on the machine can read it, it is wrong usage.
    assert ran[-1].status == 2


@pytest.mark.parametrize("typed", ["", "\n", " \n", "a\nb", "schlüssel", "x" * 4_097, "x\x00y"])
async def test_what_can_be_no_secret_is_refused(run: Run, ledger: Ledger, typed: str) -> None:
    ran = await run("vault", "put", "stripe", typed=typed)
    assert ran.status == 1
    assert "printable ASCII" in ran.complaint
    assert await ledger.vault.stored() == []


async def test_an_unknown_system_is_wrong_usage(run: Run, ledger: Ledger) -> None:
    ran = await run("vault", "put", "payments", typed=SECRET)
    assert ran.status == 2
    assert "paypal, sandbox, store, stripe" in " ".join(ran.err.split())
    assert await ledger.vault.stored() == []


async def test_at_a_terminal_it_is_asked_for_and_not_shown(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def prompt(text: str, **options: Any) -> str:
        asked.update(options)
        return SECRET

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("io.StringIO", Terminal)
    monkeypatch.setattr("typer.prompt", prompt)
    ran = await run("vault", "put", "stripe", typed="not this")
    assert ran.status == 0
    assert asked == {"hide_input": True}
    assert await _selected(ledger) == SECRET


async def test_without_the_master_key_nothing_is_put(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(tmp_path / "missing.key"))
    ran = await run("vault", "put", "stripe", typed=SECRET)
    assert ran.status == 1
    assert "missing.key" in ran.complaint
    assert SECRET not in ran.complaint
    assert await ledger.vault.stored() == []


async def test_a_system_of_ones_own_is_known_by_the_setting(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "COUNTERSEAL_SYSTEMS can name more" in (await run("vault", "put", "bank", typed=SECRET)).err
    monkeypatch.setenv("COUNTERSEAL_SYSTEMS", '{"bank": "https://bank.example"}')
    assert (await run("vault", "put", "bank", typed=SECRET)).status == 0
    assert await _selected(ledger, system="bank") == SECRET
    monkeypatch.setenv("COUNTERSEAL_SYSTEMS", "bank")
    ran = await run("vault", "put", "bank", typed=SECRET)
    assert (ran.status, "COUNTERSEAL_SYSTEMS: must be a JSON object" in ran.complaint) == (1, True)
