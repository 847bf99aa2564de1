"""Who may decide what: never whoever asked, under whichever name; and no further than their role goes."""

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from api.deciding import Choice, Decider, decide, may_decide, why_not
from ledger.approvals import Verdict
from ledger.identities import Identity
from ledger.people import Grant, Standing, names_of, normalised
from ledger.principals import Principal
from schemas.decisions import Approval, HumanDecision
from schemas.ids import new_decision_id
from tests.api.fake_provider import ANA, ISSUER
from tests.api.parked import TENANT, Office, park
from tests.api.test_pages import form_of, post_decision, sign_in, stays_open

MORE = "this needs somebody with a higher limit."


async def decider(desk: Office, username: str) -> Decider:
    """As an approver's token of theirs says who they are."""
    _, token = await desk.ledger.principals.issue("approver", TENANT, username)
    holder = await desk.ledger.principals.authenticate(token)
    assert holder is not None
    return Decider.of(holder)


async def cannot(desk: Office, approval: Approval, username: str, refused: str = "not_yours") -> None:
    """On no path: not by a token, not on the page, not by a signed decision that reaches the ledger some other way."""
    who = await decider(desk, username)
    for verdict in ("approve", "deny") if refused == "not_yours" else ("approve",):
        context = desk.app.state.context
        digest = approval.action_digest
        done = await decide(context, who, approval.approval_id, verdict, action_digest=digest, reason="an example")
        assert done.refused == refused
        assert await by_signature(desk, approval, username, verdict) is Verdict.NOT_THEIRS
    client = await sign_in(desk, username)
    page = await client.get(f"/approvals/{approval.approval_id}")
    assert 'value="approve"' not in page.text
    token = page.text.split('name="csrf" value="')[1].split('"')[0]
    form = {"csrf": token, "action_digest": approval.action_digest, "decision": "approve"}
    assert (await post_decision(client, approval, form)).status_code == 403
    assert await stays_open(desk, approval)


async def by_signature(
    desk: Office, approval: Approval, username: str, verdict: Literal["approve", "deny"] = "approve"
) -> Verdict:
    decision = HumanDecision(
        decision_id=new_decision_id(),
        approval_id=approval.approval_id,
        request_id=approval.request_id,
        tenant=TENANT,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        approver=username,
        verdict=verdict,
        reason="an example",
        decided_at=approval.requested_at,
    )
    token = desk.app.state.context.signer.sign(decision)
    return (await desk.ledger.of(TENANT).approvals.decide(decision, token))[0]


async def can(desk: Office, approval: Approval, username: str = "ana") -> None:
    client = await sign_in(desk, username)
    form = await form_of(client, approval)
    assert (await post_decision(client, approval, {**form, "decision": "approve"})).status_code == 303


# Whoever asked


@pytest.mark.parametrize("side", ["agent_id", "actor_id", "owner"])
@pytest.mark.parametrize("name", ["ana", "ANA", "ａｎａ", "a\u200bna", " ana "])
async def test_nobody_decides_what_they_asked_for(desk: Office, side: str, name: str) -> None:
    approval = await desk.park(**{side: name})
    await cannot(desk, approval, "ana")
    await can(desk, approval, "ben")


async def test_nobody_decides_what_they_asked_for_under_another_name(desk: Office) -> None:
    await desk.ledger.principals.identities.add_names("ana", ["A.Example@example.com"])
    approval = await desk.park(actor_id="a.example@EXAMPLE.com")
    await cannot(desk, approval, "ana")
    await can(desk, approval, "ben")


async def test_what_the_provider_calls_somebody_is_a_name_of_theirs(desk: Office) -> None:
    people = desk.ledger.principals.identities
    assert await people.link("ana", ISSUER, ANA["sub"]) == "linked"
    await cannot(desk, await desk.park(actor_id=ANA["sub"]), "ana")
    identity = identity_called("a.example", "ana@example.com")
    assert await people.admit(identity, TENANT) == (TENANT, "ana")
    assert await people.admit(identity_called("another.name"), TENANT) == (TENANT, "ana")
    for name in ("a.example", "ana@example.com", "another.name"):
        assert not may_decide(await decider(desk, "ana"), await desk.park(actor_id=name))


def identity_called(*names: str) -> Identity:
    return Identity(ISSUER, ANA["sub"], names[0], "Ana Example", names_of(*names), None)


async def test_two_accounts_of_one_person_are_one(desk: Office) -> None:
    people = desk.ledger.principals
    assert await people.identities.join("ana", "ben") == "joined"
    approval = await desk.park(actor_id="ben")
    await cannot(desk, approval, "ana")
    ana, ben = await decider(desk, "ana"), await decider(desk, "ben")
    assert ana.standing.person_id == ben.standing.person_id
    assert ana.standing.person_id != (await decider(desk, "olga")).standing.person_id
    assert await people.disable_user("ana") == ["ana", "ben"]


async def test_two_accounts_of_one_person_are_not_two_people(desk: Office) -> None:
    await desk.ledger.principals.add_user(TENANT, "bea", "Bea Example", "a long example password", ["finance"])
    assert await desk.ledger.principals.identities.join("ana", "ben") == "joined"
    approval = await desk.park(people=2)
    assert await by_signature(desk, approval, "ana") is Verdict.WAITING
    assert await by_signature(desk, approval, "ben") is Verdict.WAITING
    assert await by_signature(desk, approval, "bea") is Verdict.RECORDED


async def test_a_group_that_may_decide_later_may_not_before(desk: Office) -> None:
    approval = await desk.park(escalates_to="operator", escalates_at=datetime.now(UTC) + timedelta(hours=1))
    assert await by_signature(desk, approval, "olga") is Verdict.NOT_THEIRS
    late = await desk.park(escalates_to="operator", escalates_at=datetime.now(UTC))
    assert may_decide(await decider(desk, "olga"), late)
    assert await by_signature(desk, late, "olga") is Verdict.RECORDED


async def test_accounts_of_two_tenants_are_not_joined(desk: Office) -> None:
    await desk.ledger.principals.add_user("globex", "gus", "Gus Example", "a long example password", ["finance"])
    assert await desk.ledger.principals.identities.join("ana", "gus") == "other_tenant"
    assert await desk.ledger.principals.identities.join("ana", "nobody") == "no_user"


async def test_the_owner_of_an_agent_decides_none_of_its_calls(desk: Office) -> None:
    _, token = await desk.ledger.principals.issue("service", TENANT, "runtime", owner="Ana")
    service = await desk.ledger.principals.authenticate(token)
    assert service is not None
    run = await desk.ledger.principals.open_run(
        service, agent_id="bot", actor_id="user_17", customer_id="cus_1", tools=["issue_refund"], seconds=3600
    )
    holder = await desk.ledger.principals.authenticate(run.token)
    assert isinstance(holder, Principal)
    assert holder.binding is not None
    assert holder.binding.owner == "Ana"
    state = await desk.ledger.of(TENANT).admissions.run(run.run_id, "none")
    assert state is not None
    assert state.binding.owner == "Ana"
    await cannot(desk, await desk.park(owner=state.binding.owner), "ana")


async def test_a_decision_holds_only_while_its_person_may_decide(desk: Office) -> None:
    """What was checked on the page is checked again where it takes effect, in the same transaction."""
    approval = await desk.park()
    await desk.ledger.principals.disable_user("ana")
    assert await by_signature(desk, approval, "ana") is Verdict.NOT_THEIRS
    await desk.ledger.system.execute("UPDATE users SET roles = '{operator}' WHERE username = 'ben'")
    assert await by_signature(desk, approval, "ben") is Verdict.NOT_THEIRS
    assert await stays_open(desk, approval)


def test_names_are_compared_as_people_read_them() -> None:
    assert normalised("Ａna\u2060@Example.COM") == "ana@example.com"
    assert normalised("straße") == normalised("STRASSE")
    assert normalised("ﬁnance") == "finance"
    assert names_of(None, "", " ", "\u200b") == frozenset()


# How far a role goes


async def grant(desk: Office, tool: str = "issue_refund", up_to: int | None = 31_239, currency: str = "USD") -> None:
    wanted = Grant(role="finance", tool=tool, currency=currency, up_to=up_to)
    assert await desk.ledger.principals.identities.grant("ana", wanted)


MONEY: dict[str, Any] = {"amount": 31_240, "currency": "USD"}


async def test_more_than_is_theirs_can_be_denied_and_not_approved(desk: Office) -> None:
    await grant(desk)
    approval = await desk.park(**MONEY)
    await cannot(desk, approval, "ana", "over_limit")
    client = await sign_in(desk)
    html = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert f"Up to 312.39 USD is yours to approve; {MORE}" in html
    form = await form_of(client, approval)
    denied = await post_decision(client, approval, {**form, "decision": "deny", "reason": "an example"})
    assert denied.status_code == 303


async def test_the_very_amount_is_theirs(desk: Office) -> None:
    await grant(desk, up_to=31_240)
    await can(desk, await desk.park(**MONEY))


async def test_it_is_not_more_for_being_in_another_currency(desk: Office) -> None:
    await grant(desk, up_to=10_000_000, currency="EUR")
    approval = await desk.park(**MONEY)
    await cannot(desk, approval, "ana", "over_limit")
    html = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    assert f"This amount is not yours to approve; {MORE}" in html


async def test_another_tool_is_not_theirs_at_all(desk: Office) -> None:
    await grant(desk, tool="cancel_order", up_to=None, currency="*")
    await cannot(desk, await desk.park(**MONEY), "ana")


async def test_the_widest_grant_counts(desk: Office) -> None:
    await grant(desk, up_to=1)
    await grant(desk, tool="*", up_to=50_000)
    await can(desk, await desk.park(**MONEY))


async def test_what_has_no_amount_needs_a_grant_without_a_bound(desk: Office) -> None:
    await grant(desk, up_to=10_000_000)
    approval = await desk.park()
    await cannot(desk, approval, "ana", "over_limit")
    await grant(desk, up_to=None, currency="*")
    await can(desk, approval)


async def test_a_role_without_a_grant_goes_all_the_way(desk: Office) -> None:
    await can(desk, await desk.park(**MONEY))


async def test_a_grant_of_another_role_bounds_nothing(desk: Office) -> None:
    wanted = Grant(role="legal", tool="*", currency="USD", up_to=0)
    assert await desk.ledger.principals.identities.grant("ana", wanted)
    await can(desk, await desk.park(**MONEY))


async def test_a_grant_gives_no_role(desk: Office) -> None:
    wanted = Grant(role="finance", tool="*", currency="*", up_to=None)
    assert await desk.ledger.principals.identities.grant("olga", wanted)
    await cannot(desk, await desk.park(**MONEY), "olga")


async def test_a_bound_that_is_set_meanwhile_holds(desk: Office) -> None:
    approval = await desk.park(**MONEY)
    who = await decider(desk, "ana")
    await grant(desk)
    digest = approval.action_digest
    done = await decide(desk.app.state.context, who, approval.approval_id, "approve", action_digest=digest, reason="")
    assert done.refused == "not_yours"
    assert await stays_open(desk, approval)


async def test_the_reason_is_told_apart(desk: Office) -> None:
    approval = await park(desk.ledger, **MONEY)
    grants = (Grant(role="finance", tool="issue_refund", currency="USD", up_to=1),)
    finance = frozenset({"finance"})
    cases: list[tuple[Decider, Choice, str | None]] = [
        (Decider(TENANT, "user_17", finance), "deny", "requester"),
        (Decider(TENANT, "x", finance, Standing(names=frozenset({"support-bot"}))), "deny", "requester"),
        (Decider(TENANT, "x", frozenset()), "deny", "no_role"),
        (Decider(TENANT, "x", finance, Standing(grants=grants)), "approve", "over_limit"),
        (Decider(TENANT, "x", finance, Standing(grants=grants)), "deny", None),
        (Decider(TENANT, "x", finance), "approve", None),
    ]
    for who, verdict, objection in cases:
        assert why_not(who, approval, verdict) == objection
