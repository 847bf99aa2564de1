"""Tokens, runs, people and sessions: what is revoked, expired or disabled opens nothing from the next request on."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from ledger import principals
from ledger.ledger import Ledger
from ledger.principals import OpenedRun, Principal, TokenKind, new_token

PASSWORD = "a long example password"
_SERVICE = Principal(kind="service", tenant="acme", name="runtime")


async def _run(ledger: Ledger, service: Principal = _SERVICE, seconds: int = 3600) -> OpenedRun:
    return await ledger.principals.open_run(
        service,
        agent_id="support-bot",
        actor_id="user_17",
        customer_id="cus_1",
        tools=["issue_refund"],
        seconds=seconds,
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
        "owner": None,
    }
    assert holder.tools == {"issue_refund"}
    for ending in (
        "expires_at = now() - interval '1 second'",
        "expires_at = now() + interval '1 hour', revoked_at = now()",
    ):
        await ledger.system.execute(f"UPDATE runs SET {ending}")
        assert await ledger.principals.authenticate(run.token) is None


async def test_a_run_ends_with_the_token_that_opened_it_and_with_no_other_of_the_service(ledger: Ledger) -> None:
    opened: list[tuple[str, OpenedRun]] = []
    for _ in range(2):
        token_id, token = await ledger.principals.issue("service", "acme", "runtime")
        service = await ledger.principals.authenticate(token)
        assert service is not None
        opened.append((token_id, await _run(ledger, service)))
    (revoked, ended), (_, going_on) = opened
    assert await ledger.principals.revoke(revoked)
    assert await ledger.principals.authenticate(ended.token) is None
    assert await ledger.principals.authenticate(going_on.token) is not None
    states = [await ledger.admissions.run(run.run_id, "") for run in (ended, going_on)]
    assert [state is not None and state.is_open for state in states] == [False, True]


async def test_what_a_revoked_service_was_just_opening_is_closed_from_its_begin(ledger: Ledger) -> None:
    token_id, token = await ledger.principals.issue("service", "acme", "runtime")
    service = await ledger.principals.authenticate(token)
    assert service is not None
    assert await ledger.principals.revoke(token_id)
    late = await _run(ledger, service)
    assert await ledger.principals.authenticate(late.token) is None


async def test_a_run_is_revoked_once_by_the_service_that_opened_it_alone(ledger: Ledger) -> None:
    run = await _run(ledger)
    for stranger in (
        Principal(kind="service", tenant="acme", name="another"),
        Principal(kind="service", tenant="other", name="runtime"),
    ):
        assert await ledger.principals.revoke_run(stranger, run.run_id) is None
    assert await ledger.principals.authenticate(run.token) is not None
    first, second = [await ledger.principals.revoke_run(_SERVICE, run.run_id) for _ in range(2)]
    assert first is not None
    assert first == second
    assert await ledger.principals.authenticate(run.token) is None


@pytest.mark.parametrize("kind", ["service", "run", "approver", "operator"])
async def test_tokens_cannot_be_guessed(ledger: Ledger, kind: TokenKind) -> None:
    tokens = {new_token(kind) for _ in range(1000)}
    assert len(tokens) == 1000
    secret = tokens.pop().split("_", 2)[2]
    assert len(base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))) * 8 >= 128
    with pytest.raises(ValueError, match="128 bits"):
        await ledger.principals.issue(kind, "acme", "runtime", token="hunter2")


async def test_a_removed_person_has_no_token(ledger: Ledger) -> None:
    await _person(ledger)
    _, token = await ledger.principals.issue("approver", "acme", "ana")
    assert await ledger.principals.authenticate(token) is not None
    await ledger.system.execute("DELETE FROM users")
    assert await ledger.principals.authenticate(token) is None


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


def test_a_wrong_name_is_as_much_work_as_a_wrong_password() -> None:
    assert not principals.HASHER.check_needs_rehash(principals.NOBODYS_HASH)
