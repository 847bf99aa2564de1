"""Who is away, and who decides for them: what they may, as far as they may, and for as long as it was said."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import httpx
import pytest

from api.deciding import decide, may_decide
from ledger.approvals import Verdict
from ledger.inbox import Whose
from ledger.people import Grant, how_many
from schemas.decisions import Approval, HumanDecision
from schemas.ids import new_decision_id
from tests.api.parked import PASSWORD, TENANT, Office, office
from tests.api.test_deciders import decider
from tests.api.test_pages import event_types, form_of, hidden, post_decision, sign_in, stays_open

DAY = timedelta(days=1)


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    """Ana (finance) is away, and mei, who has no role of her own, decides for her."""
    async with office(database) as made:
        for name, roles in (("mei", []), ("tom", [])):
            await made.ledger.principals.add_user(TENANT, name, f"{name.title()} Example", PASSWORD, roles)
        await lend(made)
        yield made


async def lend(
    desk: Office, delegator: str = "ana", delegate: str = "mei", *, since: timedelta = -DAY, until: timedelta = DAY
) -> bool:
    now = datetime.now(UTC)
    return await desk.ledger.of(TENANT).delegations.lend(
        TENANT, delegator, delegate, now + since, now + until, reason="on leave", by=delegator
    )


async def revoke(desk: Office) -> None:
    (lent,) = await desk.ledger.of(TENANT).delegations.of(TENANT, "mei")
    assert await desk.ledger.of(TENANT).delegations.revoke(TENANT, lent.delegation_id)


async def approve(
    desk: Office, approval: Approval, username: str, verdict: Literal["approve", "deny"] = "approve"
) -> str | None:
    """What came of it: the refusal, or the status."""
    done = await decide(
        desk.app.state.context,
        await decider(desk, username),
        approval.approval_id,
        verdict,
        action_digest=approval.action_digest,
        reason="an example",
    )
    return done.refused or done.status


async def by_signature(desk: Office, approval: Approval, username: str, on_behalf_of: str | None) -> Verdict:
    decision = HumanDecision(
        decision_id=new_decision_id(),
        approval_id=approval.approval_id,
        request_id=approval.request_id,
        tenant=TENANT,
        action_digest=approval.action_digest,
        policy_version=approval.policy_version,
        approver=username,
        verdict="approve",
        reason="",
        decided_at=datetime.now(UTC),
        on_behalf_of=on_behalf_of,
    )
    token = desk.app.state.context.signer.sign(decision)
    return (await desk.ledger.of(TENANT).approvals.decide(decision, token))[0]


async def test_the_delegate_decides_and_it_is_said_for_whom(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk, "mei")
    page = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "You decide this for Ana Example" in page
    assert "You can decide" in (await client.get("/")).text
    form = await form_of(client, approval)
    assert (await post_decision(client, approval, {**form, "decision": "approve"})).status_code == 303
    found = await desk.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    (decision,) = found.decisions
    assert (decision.approver, decision.on_behalf_of) == ("mei", "ana")
    page = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "mei, for ana, approved it" in page
    signed = desk.temporal.signals[0][2].token
    assert _payload(signed)["on_behalf_of"] == "ana"


def _payload(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


@pytest.mark.parametrize(("since", "until"), [(DAY, 2 * DAY), (-2 * DAY, -DAY), (-DAY, timedelta(0))])
async def test_before_it_begins_and_from_its_end_on_nothing_is_lent(
    desk: Office, since: timedelta, until: timedelta
) -> None:
    await revoke(desk)
    assert await lend(desk, since=since, until=until)
    approval = await desk.park()
    assert await approve(desk, approval, "mei") == "not_yours"
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.NOT_THEIRS


async def test_what_ended_meanwhile_does_not_count(desk: Office) -> None:
    """Whoever was allowed to when the page was open is asked again where it takes effect."""
    approval, mei = await desk.park(), await decider(desk, "mei")
    await revoke(desk)
    assert may_decide(mei, approval)
    digest = approval.action_digest
    done = await decide(desk.app.state.context, mei, approval.approval_id, "approve", action_digest=digest, reason="")
    assert done.refused == "not_yours"
    assert await stays_open(desk, approval)


@pytest.mark.parametrize("name", ["ana", "mei", "Ana", "MEI"])
@pytest.mark.parametrize("side", ["agent_id", "actor_id", "owner"])
async def test_nobody_decides_what_either_of_them_asked_for(desk: Office, side: str, name: str) -> None:
    approval = await desk.park(**{side: name})
    assert await approve(desk, approval, "mei") == "not_yours"
    assert await approve(desk, approval, "mei", "deny") == "not_yours"
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.NOT_THEIRS


async def test_what_was_lent_is_not_lent_on(desk: Office) -> None:
    assert await lend(desk, "mei", "tom")
    approval = await desk.park()
    assert await approve(desk, approval, "tom") == "not_yours"
    for name in ("ana", "mei", None):
        assert await by_signature(desk, approval, "tom", name) is Verdict.NOT_THEIRS


async def test_it_goes_as_far_as_the_lenders_right(desk: Office) -> None:
    wanted = Grant(role="finance", tool="issue_refund", currency="USD", up_to=31_239)
    assert await desk.ledger.principals.identities.grant("ana", wanted)
    money: dict[str, Any] = {"amount": 31_240, "currency": "USD"}
    approval = await desk.park(**money)
    assert await approve(desk, approval, "mei") == "over_limit"
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.NOT_THEIRS
    assert await approve(desk, approval, "mei", "deny") == "denied"


@pytest.mark.parametrize("who", ["ana", "mei"])
async def test_of_somebody_who_is_shut_out_nothing_is_left(desk: Office, who: str) -> None:
    approval = await desk.park()
    await desk.ledger.principals.disable_user(who)
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.NOT_THEIRS


async def test_a_right_that_nobody_lent_is_none(desk: Office) -> None:
    approval = await desk.park()
    for username, other in (("mei", "ben"), ("mei", None), ("ben", "ana"), ("nobody", "ana")):
        assert await by_signature(desk, approval, username, other) is Verdict.NOT_THEIRS
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.RECORDED


# Two people


async def test_delegate_and_lender_are_one_of_the_two(desk: Office) -> None:
    approval = await desk.park(people=2)
    assert await approve(desk, approval, "mei") == "waiting_for_second"
    # Neither the one whose right it was, nor by signature.
    assert await approve(desk, approval, "ana") == "not_yours"
    page = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    assert "approved by the right that you would use" in page
    assert await by_signature(desk, approval, "ana", None) is Verdict.WAITING
    assert await approve(desk, approval, "ben") == "approved"


async def test_lender_and_delegate_are_one_of_the_two(desk: Office) -> None:
    approval = await desk.park(people=2)
    assert await approve(desk, approval, "ana") == "waiting_for_second"
    assert await approve(desk, approval, "mei") == "not_yours"
    assert await by_signature(desk, approval, "mei", "ana") is Verdict.WAITING
    assert await stays_open(desk, approval)
    assert await approve(desk, approval, "ben") == "approved"


async def test_two_delegates_of_one_person_are_one_of_the_two(desk: Office) -> None:
    assert await lend(desk, "ana", "tom")
    approval = await desk.park(people=2)
    assert await approve(desk, approval, "mei") == "waiting_for_second"
    assert await approve(desk, approval, "tom") == "not_yours"
    assert await by_signature(desk, approval, "tom", "ana") is Verdict.WAITING


async def test_of_two_rights_the_one_that_is_left_is_used(desk: Office) -> None:
    assert await lend(desk, "ben", "mei", until=2 * DAY)
    approval = await desk.park(people=2)
    assert await approve(desk, approval, "ana") == "waiting_for_second"
    assert await approve(desk, approval, "mei") == "approved"
    found = await desk.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    assert [each.on_behalf_of for each in found.decisions] == [None, "ben"]


async def test_ones_own_right_comes_first(desk: Office) -> None:
    assert await lend(desk, "ana", "ben")
    approval = await desk.park(people=2)
    assert await approve(desk, approval, "ana") == "waiting_for_second"
    assert await approve(desk, approval, "ben") == "approved"


def test_people_who_have_nobody_in_common_are_counted() -> None:
    def people(*approvals: str) -> int:
        return how_many([frozenset(each) for each in approvals])

    assert people() == 0
    assert people("a") == people("a", "a") == people("ab", "a") == people("ab", "ac", "abc") == 1
    assert people("a", "b") == people("ab", "cd") == people("ab", "a", "c") == 2


# Said on one's own account


async def said(client: httpx.AsyncClient, **changes: str) -> httpx.Response:
    today = datetime.now(UTC).date()
    form = {
        "csrf": hidden((await client.get("/account")).text, "csrf"),
        "delegate": "tom",
        "first": today.isoformat(),
        "last": (today + DAY).isoformat(),
        "reason": "on leave",
        "password": PASSWORD,
    }
    return await client.post("/account/delegations", data={**form, **changes})


async def test_a_person_says_who_decides_for_them_and_ends_it(desk: Office) -> None:
    ben = await sign_in(desk, "ben")
    assert (await said(ben)).status_code == 303
    approval = await desk.park()
    assert may_decide(await decider(desk, "tom"), approval)
    assert "You decide for ben" in (await (await sign_in(desk, "tom")).get("/account")).text
    page = (await ben.get("/account")).text
    assert "tom decides for you" in page
    form = {"csrf": hidden(page, "csrf"), "delegation_id": hidden(page, "delegation_id")}
    # It is not mei's, nor the delegate's, to end.
    mei = await sign_in(desk, "mei")
    theirs = {**form, "csrf": hidden((await mei.get("/account")).text, "csrf")}
    await mei.post("/account/delegations/revoke", data=theirs)
    assert may_decide(await decider(desk, "tom"), approval)
    assert (await ben.post("/account/delegations/revoke", data=form)).status_code == 303
    assert not may_decide(await decider(desk, "tom"), approval)
    assert "decision.rejected" not in await event_types(desk, approval)


@pytest.mark.parametrize(
    "changes",
    [
        {"delegate": "nobody"},
        {"delegate": "gus"},
        {"delegate": "ben"},
        {"delegate": ""},
        {"first": "2030-01-02", "last": "2030-01-01"},
        {"first": "2030-01-01", "last": "2030-04-01"},
        {"first": "2020-01-01", "last": "2020-01-02"},
        {"first": "x"},
        {"last": "9999-12-31", "first": "9999-12-31"},
        {"reason": " "},
        {"reason": "x" * 201},
        {"password": "wrong"},
        {"password": ""},
        {"csrf": "forged"},
    ],
)
async def test_what_lends_nothing(desk: Office, changes: dict[str, str]) -> None:
    await desk.ledger.principals.add_user("globex", "gus", "Gus Example", PASSWORD, ["finance"])
    refused = await said(await sign_in(desk, "ben"), **changes)
    assert refused.status_code in (403, 422)
    assert await desk.ledger.of(TENANT).delegations.of(TENANT, "ben") == []


async def test_another_tenants_name_is_answered_as_one_that_there_is_not(desk: Office) -> None:
    await desk.ledger.principals.add_user("globex", "gus", "Gus Example", PASSWORD, ["finance"])
    client = await sign_in(desk, "ben")
    one, other = await said(client, delegate="gus"), await said(client, delegate="nobody")
    assert (one.status_code, one.text) == (other.status_code, other.text)


async def test_the_inbox_finds_what_was_lent(desk: Office) -> None:
    mei = await decider(desk, "mei")
    assert Whose.of("mei", mei.standing).groups == ("finance",)
    assert Whose.of("tom", (await decider(desk, "tom")).standing).groups == ()
