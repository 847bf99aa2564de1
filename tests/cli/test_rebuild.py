"""`counterseal ledger rebuild`: what is said of the projections, and the exit status."""

import pytest

from ledger.ledger import Ledger
from tests.cli.conftest import Run
from tests.ledger.histories import Histories
from tests.ledger.tampering import tamper


async def test_a_ledger_that_holds_says_so(run: Run, ledger: Ledger) -> None:
    ran = await run("ledger", "rebuild", "--check")
    assert (ran.status, ran.out) == (0, "0 calls: 0 differ\n")
    await Histories(ledger).by_two()
    ran = await run("ledger", "rebuild")
    assert (ran.status, ran.out, ran.err) == (0, "1 calls: 0 of 0 differing mended\n", "")


async def test_what_differs_is_named_and_then_mended(run: Run, ledger: Ledger) -> None:
    record = await Histories(ledger).by_two()
    await ledger.system.execute("UPDATE calls SET status = 'failed', customer_id = 'cus_of_mallory'")
    await ledger.system.execute("DELETE FROM views WHERE viewer = 'ana'")
    ran = await run("ledger", "rebuild", "--check")
    assert ran.status == 1
    assert ran.out.splitlines() == [
        f"{record.request_id}: calls.customer_id is not what the events say",
        f"{record.request_id}: calls.status is not what the events say",
        f"{record.request_id}: views: a row is missing",
        "1 calls: 1 differ",
    ]
    shown = await run("ledger", "rebuild", "--check", "--json")
    assert (shown.status, shown.json["holds"], shown.json["differing"]) == (1, False, 1)
    assert shown.json["found"][0] == {
        "request_id": record.request_id,
        "table": "calls",
        "column": "customer_id",
        "row": None,
    }
    assert shown.json["found"][-1]["row"] == "missing"
    for told in (ran.out, shown.out):
        assert record.details.call.binding.customer_id not in told
        assert "mallory" not in told
        assert "ana" not in told
    ran = await run("ledger", "rebuild")
    assert (ran.status, ran.out.splitlines()[-1]) == (0, "1 calls: 1 of 1 differing mended")
    assert (await run("ledger", "rebuild", "--check", "--json")).json == {
        "holds": True,
        "check": True,
        "calls": 1,
        "differing": 0,
        "mended": 0,
        "broken": 0,
        "sums": 0,
        "kept": {"erased": 0, "pruned": 0, "older": 0},
        "found": [],
    }


async def test_sums_that_limits_are_counted_by_are_named_and_then_mended(run: Run, ledger: Ledger) -> None:
    """A limit is not passed by making less of what was used."""
    await Histories(ledger).by_two()
    right = await ledger.system.fetch("SELECT * FROM uses_by_minute ORDER BY 1, 2, 3, 4")
    await ledger.system.execute("UPDATE uses_by_minute SET amount = 1 WHERE subject = 'tool'")
    await ledger.system.execute("DELETE FROM uses_by_minute WHERE subject = 'tenant'")
    await ledger.system.execute("INSERT INTO uses_by_minute VALUES ('acme', 'tool', 'made_up', now(), 1, 5)")
    ran = await run("ledger", "rebuild", "--check")
    assert (ran.status, ran.out) == (1, "1 calls: 0 differ, 3 sums of what calls take differ\n")
    shown = await run("ledger", "rebuild", "--check", "--json")
    assert (shown.status, shown.json["holds"], shown.json["sums"]) == (1, False, 3)
    ran = await run("ledger", "rebuild")
    assert (ran.status, ran.out) == (0, "1 calls: 0 of 0 differing mended, 3 sums of what calls take mended\n")
    left = "SELECT * FROM uses_by_minute WHERE tool <> 'made_up' ORDER BY 1, 2, 3, 4"
    assert await ledger.system.fetch(left) == right
    assert (await run("ledger", "rebuild", "--check", "--json")).json["holds"]


async def test_what_is_left_as_it_is_is_counted_by_why(run: Run, ledger: Ledger) -> None:
    record = await Histories(ledger).done()
    customer = record.details.call.binding.customer_id
    await ledger.erasures.erase(record.tenant, customer, by="olga", reason="asked for")
    ran = await run("ledger", "rebuild")
    assert (ran.status, ran.out) == (
        0,
        "1 calls: 0 of 0 differing mended, 1 of customers who were erased left as they are\n",
    )


@pytest.mark.parametrize("trusted", [False, True])
async def test_where_events_are_gone_it_takes_a_word_to_go_on(
    run: Run, ledger: Ledger, settings: str, trusted: bool
) -> None:
    record = await Histories(ledger).done()
    await tamper(settings, "DELETE FROM events WHERE n > 5")
    ran = await run("ledger", "rebuild", *(["--trust-events"] if trusted else []))
    assert ran.status == (0 if trusted else 1)
    if trusted:
        assert ran.out.splitlines()[-1] == "1 calls: 1 of 1 differing mended"
    else:
        assert ran.out.splitlines() == [
            f"{record.request_id}: its row knows of 9 events, and there are 5: some may be gone",
            "1 calls: 0 of 0 differing mended, 1 that cannot be rebuilt",
        ]
