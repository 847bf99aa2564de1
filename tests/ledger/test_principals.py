"""Tokens, runs, people and sessions: what is revoked, expired or disabled opens nothing from the next request on."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.ledger import Ledger
from ledger.principals import OpenedRun, Principal, TokenKind, new_token

PASSWORD = "a long example password"


async def _run(ledger: Ledger, **changes: int) -> OpenedRun:
    service = Principal(kind="service", tenant="acme", name="runtime")
    return await ledger.principals.open_run(
        service,
        agent_id="support-bot",
        actor_id="user_17",
        customer_id="cus_1",
        tools=["issue_refund"],
        **{"seconds": 3600, **changes},
    )


async def _person(ledger: Ledger, name: str = "ana", tenant: str = "acme") -> None:
    assert await ledger.principals.add_user(tenant, name, name.title(), PASSWORD, ["approver", "finance"])


@pytest.mark.parametrize("kind", ["service", "approver", "operator"])
async def test_a_token_opens_until_it_is_revoked(ledger: Ledger, kind: TokenKind) -> None:
    await _person(ledger)
    token_id, token = await ledger.principals.issue(kind, "acme", "ana")
    holder = await ledger.principals.authenticate(token)
    assert holder is not None
    assert (holder.kind, holder.tenant, holder.name) == (kind, "acme", "ana")
    assert await ledger.principals.revoke(token_id)
    assert await ledger.principals.authenticate(token) is None
    assert not await ledger.principals.revoke(token_id)


async def test_an_expired_token_opens_nothing(ledger: Ledger) -> None:
    for expires_at, opens in (
        (datetime.now(UTC) - timedelta(seconds=1), False),
        (datetime.now(UTC) + timedelta(hours=1), True),
    ):
        _, token = await ledger.principals.issue("service", "acme", "runtime", expires_at=expires_at)
        assert (await ledger.principals.authenticate(token) is not None) is opens


async def test_unknown_and_odd_tokens_open_nothing(ledger: Ledger) -> None:
    _, token = await ledger.principals.issue("service", "acme", "runtime")
    for offered in ("", token[:-1], token + "A", token.upper(), new_token("service"), "\ud800", "\0", "' OR true --"):
        assert await ledger.principals.authenticate(offered) is None


async def test_tokens_and_sessions_are_not_in_the_database(ledger: Ledger) -> None:
    await _person(ledger)
    run = await _run(ledger)
    _, token = await ledger.principals.issue("service", "acme", "runtime")
    signed_in = await ledger.principals.sign_in("ana", PASSWORD)
    assert signed_in is not None
    for table in ("tokens", "sessions", "users", "runs"):
        content = str(await ledger.system.fetch(f"SELECT t::text FROM {table} t"))
        for secret in (run.token, token, signed_in[0], PASSWORD):
            assert secret not in content


async def test_a_runs_token_carries_its_binding_until_the_run_ends(ledger: Ledger) -> None:
    run = await _run(ledger)
    holder = await ledger.principals.authenticate(run.token)
    assert holder is not None
    assert holder.binding is not None
    assert holder.binding.model_dump() == {
        "tenant": "acme",
        "run_id": run.run_id,
        "agent_id": "support-bot",
        "actor_id": "user_17",
        "customer_id": "cus_1",
    }
    assert holder.tools == {"issue_refund"}
    for ending in (
        "expires_at = now() - interval '1 second'",
        "expires_at = now() + interval '1 hour', revoked_at = now()",
    ):
        await ledger.system.execute(f"UPDATE runs SET {ending}")
        assert await ledger.principals.authenticate(run.token) is None


async def test_a_disabled_person_is_out_at_once_with_every_token_and_session(ledger: Ledger) -> None:
    await _person(ledger)
    _, token = await ledger.principals.issue("approver", "acme", "ana")
    signed_in = await ledger.principals.sign_in("ana", PASSWORD)
    assert signed_in is not None
    secret, _ = signed_in
    holder = await ledger.principals.authenticate(token)
    assert holder is not None
    assert holder.roles == {"approver", "finance"}
    assert await ledger.principals.disable_user("ANA")
    assert await ledger.principals.authenticate(token) is None
    assert await ledger.principals.session(secret) is None
    assert await ledger.principals.sign_in("ana", PASSWORD) is None


async def test_a_token_takes_no_powers_from_a_namesake_in_another_tenant(ledger: Ledger) -> None:
    await _person(ledger, tenant="acme")
    _, approver = await ledger.principals.issue("approver", "other", "ana")
    assert await ledger.principals.authenticate(approver) is None
    _, operator = await ledger.principals.issue("operator", "other", "ana")
    holder = await ledger.principals.authenticate(operator)
    assert holder is not None
    assert holder.roles == frozenset()


async def test_a_session_ends_by_time_and_by_signing_out(ledger: Ledger) -> None:
    await _person(ledger)
    first, second = [await ledger.principals.sign_in("Ana", PASSWORD) for _ in range(2)]
    assert first is not None
    assert second is not None
    person = await ledger.principals.session(first[0])
    assert person is not None
    assert (person.username, person.tenant, person.csrf) == ("ana", "acme", first[1].csrf)
    assert first[1].csrf != second[1].csrf
    await ledger.principals.sign_out(first[0])
    assert await ledger.principals.session(first[0]) is None
    assert await ledger.principals.session(second[0]) is not None
    await ledger.system.execute("UPDATE sessions SET expires_at = now() - interval '1 second'")
    assert await ledger.principals.session(second[0]) is None


async def test_a_wrong_password_and_an_unknown_name_are_refused_alike(ledger: Ledger) -> None:
    await _person(ledger)
    assert await ledger.principals.sign_in("ana", PASSWORD + " ") is None
    assert await ledger.principals.sign_in("nobody", PASSWORD) is None
    assert not await ledger.principals.add_user("acme", "Ana", "Another", "another password", ["operator"])
    assert await ledger.principals.sign_in("ana", "another password") is None
