"""Policies on pages: what is in force, what a proposal changes, and two people who agree to it."""

from http import HTTPStatus

import httpx
import pytest

from activities.policies import checked_text, document_of
from api.changing import Changing
from api.deciding import Decider
from ledger.policies import Proposal
from policy.model import Policy
from tests.api.parked import CATALOG, PASSWORD, TENANT, Office
from tests.api.test_pages import HOSTILE, hidden, sign_in

TEXT = """
name: test
defaults: {{approvers: finance, deadline: 24h, changes: {{people: 2, group: finance}}}}
tools:
  issue_refund:
    rules: [{{name: much, hold: finance, when: args.amount_cents > {much}, because: it is much}}]
    otherwise: notify
"""
REASON = f"raise it {HOSTILE}"


def policy(much: int) -> Policy:
    return checked_text(TEXT.format(much=much), "test.yaml", CATALOG)


@pytest.fixture
async def proposed(desk: Office) -> Proposal:
    """Ana's, who is of finance as ben is; olga is an operator."""
    await desk.ledger.policies.publish(document_of(policy(100)), base=0, by=["olga"])
    _, token = await desk.ledger.principals.issue("approver", TENANT, "ana")
    ana = await desk.ledger.principals.authenticate(token)
    assert ana is not None
    on = Changing(desk.ledger.policies, CATALOG, TENANT)
    made = await on.propose_policy(Decider.of(ana), policy(200), reason=REASON)
    assert made.proposal is not None
    return made.proposal


async def _say(client: httpx.AsyncClient, proposal: Proposal, vote: str, **changes: str) -> httpx.Response:
    page = (await client.get(f"/policies/{proposal.proposal_id}")).text
    form = {"csrf": hidden(page, "csrf"), "version": proposal.version, "vote": vote, "reason": ""}
    return await client.post(f"/policies/{proposal.proposal_id}", data=form | changes)


async def test_a_second_person_agrees_to_what_is_shown(desk: Office, proposed: Proposal) -> None:
    ana, ben = await sign_in(desk, "ana"), await sign_in(desk, "ben")
    page = (await ben.get(f"/policies/{proposed.proposal_id}")).text
    assert "args.amount_cents &gt; 100" in page
    assert "args.amount_cents &gt; 200" in page
    assert "2 different people" in page
    assert HOSTILE not in page
    own = (await ana.get(f"/policies/{proposed.proposal_id}")).text
    assert "somebody else has to agree" in own
    assert 'value="agree"' not in own
    refused = await _say(ana, proposed, "agree")
    assert (refused.status_code, "Nothing was changed." in refused.text) == (HTTPStatus.CONFLICT, True)
    assert await desk.ledger.policies.number() == 1
    assert (await _say(ben, proposed, "agree")).status_code == HTTPStatus.SEE_OTHER
    newest = await desk.ledger.policies.in_force()
    assert newest is not None
    assert newest.version == proposed.version
    assert "Agreed, and put in force" in (await ben.get(f"/policies/{proposed.proposal_id}")).text
    listed = (await ben.get("/policies")).text
    assert "ana, ben" in listed
    assert HOSTILE not in listed


async def test_an_objection_takes_a_reason_and_ends_it(desk: Office, proposed: Proposal) -> None:
    ben = await sign_in(desk, "ben")
    without = await _say(ben, proposed, "object")
    assert (without.status_code, "Say why." in without.text) == (HTTPStatus.CONFLICT, True)
    assert (await _say(ben, proposed, "object", reason="not now")).status_code == HTTPStatus.SEE_OTHER
    page = (await ben.get(f"/policies/{proposed.proposal_id}")).text
    assert "Objected to: nothing was changed" in page
    assert "not now" in page
    assert await desk.ledger.policies.number() == 1


async def test_what_was_not_shown_is_not_agreed_to(desk: Office, proposed: Proposal) -> None:
    ben = await sign_in(desk, "ben")
    for changes, status in (
        ({"version": "test@000000000000"}, HTTPStatus.CONFLICT),
        ({"vote": "perhaps"}, HTTPStatus.UNPROCESSABLE_ENTITY),
        ({"csrf": "x"}, HTTPStatus.FORBIDDEN),
    ):
        assert (await _say(ben, proposed, **{"vote": "agree", **changes})).status_code == status
    assert (await ben.get("/policies/pol_x")).status_code == HTTPStatus.NOT_FOUND
    assert await desk.ledger.policies.number() == 1


async def test_an_operator_sees_it_and_has_no_say_where_others_have(desk: Office, proposed: Proposal) -> None:
    olga = await sign_in(desk, "olga")
    page = (await olga.get(f"/policies/{proposed.proposal_id}")).text
    assert "What it changes" in page
    assert "What do you say?" not in page
    assert (await _say_without_form(olga, desk, proposed)).status_code == HTTPStatus.CONFLICT
    assert (await olga.get("/operations")).text.count('href="/policies"') == 1


async def _say_without_form(client: httpx.AsyncClient, desk: Office, proposal: Proposal) -> httpx.Response:
    csrf = hidden((await client.get("/operations")).text, "csrf")
    form = {"csrf": csrf, "version": proposal.version, "vote": "agree", "reason": ""}
    return await client.post(f"/policies/{proposal.proposal_id}", data=form)


async def test_nobody_else_sees_it(desk: Office, proposed: Proposal) -> None:
    await desk.ledger.principals.add_user(TENANT, "sue", "Sue Example", PASSWORD, ["support"])
    await desk.ledger.principals.add_user("globex", "gus", "Gus Example", PASSWORD, ["finance", "operator"])
    for name in ("sue", "gus"):
        client = await sign_in(desk, name)
        for path in ("/policies", f"/policies/{proposed.proposal_id}"):
            assert (await client.get(path)).status_code == HTTPStatus.FORBIDDEN


async def test_what_cannot_be_used_is_said(desk: Office, proposed: Proposal) -> None:
    await desk.ledger.system.execute("INSERT INTO publications SELECT 2, version, 'forged' FROM publications")
    olga = await sign_in(desk, "olga")
    page = (await olga.get("/policies")).text
    assert "no key here signed publication 2" in page
    assert "not signed by a key here" in page
