"""`counterseal users` and `counterseal tokens`: what they say is what the service then believes."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from ledger.ledger import Ledger
from tests.cli.conftest import Run

PASSWORD = "a long example password"
KEY = base64.b64encode(bytes(32)).decode()


async def add(run: Run, name: str = "Ana", *options: str) -> None:
    assert (await run("users", "add", name, *options, typed=PASSWORD + "\n")).status == 0


async def test_an_added_person_can_sign_in_and_a_disabled_one_cannot(run: Run, ledger: Ledger) -> None:
    await add(run, "Ana", "--name", "Ana Example", "--role", "finance", "--role", "operator", "--tenant", "acme")
    signed_in = await ledger.principals.sign_in("ana", PASSWORD)
    assert signed_in is not None
    person = signed_in[1]
    assert (person.tenant, person.display_name, person.roles) == ("acme", "Ana Example", {"finance", "operator"})

    (listed,) = (await run("users", "list", "--json")).json["users"]
    assert (listed["username"], listed["roles"], listed["disabled_at"]) == ("ana", ["finance", "operator"], None)

    assert (await run("users", "disable", "ana")).status == 0
    assert await ledger.principals.sign_in("ana", PASSWORD) is None
    assert (await run("users", "list", "--json")).json["users"][0]["disabled_at"]
    again = await run("users", "disable", "ana")
    assert again.status == 1
    assert "no enabled user ana" in again.complaint


async def test_nobody_is_replaced_by_adding_them_again(run: Run, ledger: Ledger) -> None:
    await add(run)
    ran = await run("users", "add", "ANA", typed="another long password\n")
    assert ran.status == 1
    assert "already" in ran.complaint
    assert await ledger.principals.sign_in("ana", PASSWORD) is not None


@pytest.mark.parametrize(("typed", "status"), [("", 1), ("short\n", 1)])
async def test_a_poor_password_adds_nobody(run: Run, ledger: Ledger, typed: str, status: int) -> None:
    ran = await run("users", "add", "ana", typed=typed)
    assert ran.status == status
    assert "short" not in ran.complaint
    assert await ledger.principals.users() == []


async def test_an_issued_token_opens_until_it_is_revoked(run: Run, ledger: Ledger) -> None:
    issued = (await run("tokens", "issue", "service", "support", "--tenant", "acme", "--json")).json
    principal = await ledger.principals.authenticate(issued["token"])
    assert principal is not None
    assert (principal.kind, principal.tenant, principal.name) == ("service", "acme", "support")

    listed = await run("tokens", "list", "--json")
    assert [each["token_id"] for each in listed.json["tokens"]] == [issued["token_id"]]
    assert issued["token"] not in listed.out

    assert (await run("tokens", "revoke", issued["token_id"])).status == 0
    assert await ledger.principals.authenticate(issued["token"]) is None
    assert (await run("tokens", "revoke", issued["token_id"])).status == 1


async def test_a_token_alone_is_printed_to_stdout_so_that_it_can_be_piped(run: Run, ledger: Ledger) -> None:
    ran = await run("tokens", "issue", "service", "support", "--expires-in", "30m")
    assert await ledger.principals.authenticate(ran.out.strip()) is not None
    assert ran.out.strip() not in ran.err
    expires_at = await ledger.system.fetchval("SELECT expires_at - created_at < interval '31 minutes' FROM tokens")
    assert expires_at is True


@pytest.mark.parametrize("duration", ["3w", "0d", "d", "-1h", "1.5h"])
async def test_a_duration_that_is_none_is_wrong_usage(run: Run, ledger: Ledger, duration: str) -> None:
    assert (await run("tokens", "issue", "service", "support", "--expires-in", duration)).status == 2
    assert await ledger.principals.tokens() == []


async def test_an_approvers_token_needs_its_person(run: Run, ledger: Ledger) -> None:
    refused = await run("tokens", "issue", "approver", "ana")
    assert refused.status == 1
    assert "add them first" in refused.complaint
    await add(run)
    ran = await run("tokens", "issue", "approver", "Ana", "--json")
    principal = await ledger.principals.authenticate(ran.json["token"])
    assert principal is not None
    assert principal.roles == {"finance"}
    assert (await run("tokens", "issue", "approver", "ana", "--tenant", "other")).status == 1


async def test_an_empty_database_says_what_it_lacks(
    run: Run, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERSEAL_DATABASE_URL", empty_database)
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY", KEY)
    ran = await run("users", "list")
    assert ran.status == 1
    assert "counterseal migrate" in ran.complaint


async def test_an_unreachable_database_is_one_line_without_the_password(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERSEAL_DATABASE_URL", "postgresql://owner:hunter2@127.0.0.1:1/ledger")
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY", KEY)
    ran = await run("tokens", "list")
    assert ran.status == 1
    assert "127.0.0.1:1/ledger" in ran.complaint
    assert "hunter2" not in ran.complaint


async def test_who_is_who_is_said_on_the_command_line(run: Run, ledger: Ledger) -> None:
    await add(run, "ana")
    await add(run, "ben")
    subject = ("--issuer", "https://login.example.com", "--subject", "4f1d20aa")
    assert (await run("users", "link", "Ana", *subject)).status == 0
    taken = await run("users", "link", "ben", *subject)
    assert taken.status == 1
    assert "has an account already" in taken.complaint
    assert (await run("users", "alias", "ana", "A.Example@example.com")).status == 0
    assert (await run("users", "link", "ana", "--account", "BEN")).status == 0
    ana, ben = (await run("users", "list", "--json")).json["users"]
    assert ana["person_id"] == ben["person_id"]
    assert set(ben["names"]) == {"ana", "ben", "a.example@example.com", "4f1d20aa"}
    assert ana["identities"] == ["https://login.example.com 4f1d20aa"]
    disabled = await run("users", "disable", "ben")
    assert disabled.out == "disabled ana, ben\n"


@pytest.mark.parametrize(
    "line",
    [
        ("link", "ana"),
        ("link", "ana", "--issuer", "https://login.example.com"),
        ("link", "ana", "--subject", "1", "--account", "ben"),
        ("grant", "ana", "--role", "finance", "--up-to", "1"),
        ("grant", "ana", "--role", "finance", "--currency", "USD"),
        ("grant", "ana", "--role", "finance", "--up-to", "-1", "--currency", "USD"),
        ("grant", "ana", "--role", "finance", "--up-to", "1", "--currency", "usd"),
    ],
)
async def test_what_is_said_by_halves_changes_nothing(run: Run, ledger: Ledger, line: tuple[str, ...]) -> None:
    await add(run)
    before = (await run("users", "list", "--json")).json
    assert (await run("users", *line)).status == 2
    assert (await run("users", "list", "--json")).json == before


async def test_nobody_who_is_not_there_is_linked_named_or_bounded(run: Run, ledger: Ledger) -> None:
    for line in (
        ("link", "ana", "--issuer", "https://login.example.com", "--subject", "1"),
        ("link", "ana", "--account", "ben"),
        ("alias", "ana", "a.example"),
        ("grant", "ana", "--role", "finance"),
        ("ungrant", "ana", "--role", "finance"),
    ):
        assert (await run("users", *line)).status == 1


async def test_a_grant_bounds_a_role_until_that_is_taken_back_in_so_many_words(run: Run, ledger: Ledger) -> None:
    await add(run)
    bound = ("--role", "finance", "--tool", "issue_refund", "--up-to", "50000", "--currency", "USD")
    said = await run("users", "grant", "ana", *bound)
    assert said.out == "ana as finance: issue_refund, up to 500.00 USD\n"
    (ana,) = (await run("users", "list", "--json")).json["users"]
    assert ana["grants"] == [{"role": "finance", "tool": "issue_refund", "currency": "USD", "up_to": 50_000}]
    last = await run("users", "ungrant", "ana", "--role", "finance")
    assert last.status == 1
    assert "would have no bound" in last.complaint
    assert (await run("users", "grant", "ana", "--role", "finance", "--tool", "cancel_order")).status == 0
    assert (await run("users", "ungrant", "ana", "--role", "finance", "--tool", "issue_refund")).status == 0
    assert (await run("users", "ungrant", "ana", "--role", "finance", "--unbounded")).status == 0
    assert (await run("users", "list", "--json")).json["users"][0]["grants"] == []


async def test_a_services_token_says_who_answers_for_its_agents(run: Run, ledger: Ledger) -> None:
    issued = (await run("tokens", "issue", "service", "support", "--owner", "Ana Example", "--json")).json
    principal = await ledger.principals.authenticate(issued["token"])
    assert principal is not None
    assert principal.owner == "Ana Example"
    assert (await run("tokens", "list", "--json")).json["tokens"][0]["owner"] == "Ana Example"
    assert (await run("tokens", "issue", "operator", "olga", "--owner", "ana")).status == 2


async def test_somebody_decides_in_anothers_place_for_a_time(run: Run, ledger: Ledger) -> None:
    for name in ("ada", "mei"):
        assert (await run("users", "add", name, typed="a long example password\n")).status == 0
    last = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    ran = await run("users", "delegate", "Ada", "Mei", "--last", last, "--reason", "on leave")
    assert (ran.status, "mei decides for ada from" in ran.out) == (0, True), ran.err
    (lent,) = (await run("users", "away", "--json")).json["delegations"]
    assert (lent["delegator"], lent["delegate"], lent["reason"]) == ("ada", "mei", "on leave")
    assert lent["created_by"].startswith("cli:")
    assert "mei" in (await run("users", "away")).out
    for other in ("ada", "nobody"):
        ran = await run("users", "delegate", "ada", other, "--last", last, "--reason", "on leave")
        assert (ran.status, "no two different people" in ran.complaint) == (1, True)
    for wrong in (("--last", "2020-01-01"), ("--last", "2090-01-01"), ("--last", last, "--first", "2090-01-01")):
        assert (await run("users", "delegate", "ada", "mei", *wrong, "--reason", "on leave")).status == 2
    assert (await run("users", "undelegate", "ada", "mei")).status == 0
    assert (await run("users", "away", "--json")).json["delegations"] == []
    assert (await run("users", "undelegate", "ada", "mei")).status == 1
