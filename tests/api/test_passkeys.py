"""Passkeys over ASGI with an authenticator in software: added, approved with, and everything that they do not prove."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from api.passkeys import RelyingParty, relying_party
from ledger.evidence import BrokenEvidence, Evidence, check, evidence_of
from ledger.keys import MasterKey
from ledger.signing import verifying_key_pem, verifying_keys
from schemas.canonical import digest
from schemas.decisions import Approval
from tests.api.authenticator import Authenticator, b64, options_of
from tests.api.parked import PASSWORD, TENANT, Office, office
from tests.api.test_pages import browser, event_types, hidden, post_decision, sign_in, stays_open

ORIGIN = "http://localhost"
ACTION: dict[str, Any] = {"tenant": TENANT, "tool": "issue_refund", "arguments": {"amount_cents": 31_240}, "facts": {}}
BOUND = {"action": ACTION, "action_digest": digest(ACTION)}


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        made.app.state.context = replace(made.app.state.context, public_url=ORIGIN)
        yield made


@dataclass
class Holder:
    """Somebody at a browser with a passkey."""

    desk: Office
    client: httpx.AsyncClient
    key: Authenticator

    async def challenge(self, approval: Approval) -> tuple[dict[str, str], dict[str, Any]]:
        """The form that the page would send, and what it asks the passkey to sign."""
        token = hidden((await self.client.get("/account")).text, "csrf")
        form = {"csrf": token, "action_digest": approval.action_digest}
        page = await self.client.post(f"/approvals/{approval.approval_id}/passkey", data=form)
        assert page.status_code == 200, page.headers
        return {**form, "nonce": hidden(page.text, "nonce"), "decision": "approve"}, options_of(page.text)

    async def approve(self, approval: Approval, **changes: str) -> httpx.Response:
        form, options = await self.challenge(approval)
        return await post_decision(self.client, approval, {**form, "passkey": self.key.sign(options), **changes})


async def holder(desk: Office, username: str = "ana", key: Authenticator | None = None) -> Holder:
    client, key = await sign_in_there(desk, username), key or Authenticator(ORIGIN)
    added = await add(client, key)
    assert (added.status_code, added.headers["location"]) == (303, "/account")
    return Holder(desk, client, key)


async def sign_in_there(desk: Office, username: str) -> httpx.AsyncClient:
    return await sign_in(desk, username, headers={"host": "localhost"})


async def begin(client: httpx.AsyncClient, name: str = "laptop", password: str = PASSWORD) -> httpx.Response:
    token = hidden((await client.get("/account")).text, "csrf")
    return await client.post("/account/passkeys", data={"csrf": token, "name": name, "password": password})


async def add(client: httpx.AsyncClient, key: Authenticator) -> httpx.Response:
    page = await begin(client)
    assert page.status_code == 200
    fields = {name: hidden(page.text, name) for name in ("csrf", "nonce", "name")}
    return await client.post("/account/passkeys/new", data={**fields, "passkey": key.make(options_of(page.text))})


async def refused(desk: Office, response: httpx.Response, approval: Approval) -> None:
    """Not decided, and on the record."""
    assert response.status_code == 403, response.text
    assert "Not decided." in response.text
    assert (await event_types(desk, approval))[-1] == "decision.rejected"
    assert await stays_open(desk, approval)


# Adding and removing


async def test_a_passkey_is_added_shown_and_removed(desk: Office) -> None:
    ana = await holder(desk)
    page = (await ana.client.get("/account")).text
    assert "laptop" in page
    assert "not used yet" in page
    form = {"csrf": hidden(page, "csrf"), "credential_id": hidden(page, "credential_id")}
    assert (await ana.client.post("/account/passkeys/remove", data=form)).status_code == 403
    assert len(await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana")) == 1
    gone = await ana.client.post("/account/passkeys/remove", data={**form, "password": PASSWORD})
    assert gone.status_code == 303
    assert await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana") == []


async def test_adding_one_takes_more_than_a_session(desk: Office) -> None:
    client = await sign_in_there(desk, "ana")
    for password in ("", "wrong"):
        assert (await begin(client, password=password)).status_code == 403
    assert (await begin(client, name=" ")).status_code == 422
    assert (await begin(client, name="x" * 61)).status_code == 422
    token = hidden((await client.get("/account")).text, "csrf")
    key = Authenticator(ORIGIN)
    # A nonce of one's own making, or somebody else's.
    ben = await sign_in_there(desk, "ben")
    bens = hidden((await begin(ben)).text, "nonce")
    for nonce in ("", b64(bytes(32)), bens):
        made = key.make({"rp": {"id": "localhost"}, "challenge": nonce})
        form = {"csrf": token, "nonce": nonce, "name": "mine", "passkey": made}
        assert (await client.post("/account/passkeys/new", data=form)).status_code == 403
    assert (await client.post("/account/passkeys/new", data={"csrf": "forged"})).status_code == 403
    assert await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana") == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: answer.replace("public-key", "password"),
        lambda answer: "{}",
        lambda answer: "null",
        lambda answer: "[" * 2000,
        lambda answer: answer[:-40],
        lambda answer: "",
        lambda answer: "x" * 9000,
    ],
)
async def test_what_is_no_passkey_is_not_added(desk: Office, spoil: Callable[[str], str]) -> None:
    client, key = await sign_in_there(desk, "ana"), Authenticator(ORIGIN)
    page = await begin(client)
    fields = {name: hidden(page.text, name) for name in ("csrf", "nonce", "name")}
    answer = spoil(key.make(options_of(page.text)))
    assert (await client.post("/account/passkeys/new", data={**fields, "passkey": answer})).status_code == 403
    assert await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana") == []


async def test_a_key_that_does_not_verify_its_user_or_is_of_another_site_is_not_added(desk: Office) -> None:
    client = await sign_in_there(desk, "ana")
    for key in (Authenticator(ORIGIN, verifies=False), Authenticator("https://localhost")):
        assert (await add(client, key)).status_code == 403


async def test_one_key_is_one_accounts(desk: Office) -> None:
    ana = await holder(desk)
    assert (await add(await sign_in_there(desk, "ben"), ana.key)).status_code == 409


async def test_removing_ones_own_removes_nobody_elses(desk: Office) -> None:
    ana, ben = await holder(desk), await sign_in_there(desk, "ben")
    token = hidden((await ben.get("/account")).text, "csrf")
    form = {"csrf": token, "password": PASSWORD, "credential_id": b64(ana.key.credential_id)}
    assert (await ben.post("/account/passkeys/remove", data=form)).status_code == 303
    assert len(await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana")) == 1


@pytest.mark.parametrize(
    ("url", "party"),
    [
        ("https://counterseal.example", RelyingParty("counterseal.example", "https://counterseal.example")),
        ("https://c.example:8443/", RelyingParty("c.example", "https://c.example:8443")),
        ("http://localhost:8080", RelyingParty("localhost", "http://localhost:8080")),
        ("http://127.0.0.1:8080", RelyingParty("localhost", "http://localhost:8080")),
        ("http://counterseal.example", None),
        ("https://10.0.0.1", None),
    ],
)
def test_passkeys_are_bound_to_a_name(url: str, party: RelyingParty | None) -> None:
    assert relying_party(url) == party


# Approving


@pytest.mark.parametrize("proof", ["passkey", "reauthenticated"])
async def test_a_passkey_approves_what_it_signed(desk: Office, proof: str) -> None:
    approval = await desk.park(proof=proof, **BOUND)
    ana = await holder(desk)
    page = (await ana.client.get(f"/approvals/{approval.approval_id}")).text
    assert "Approve with a passkey" in page
    assert ('name="password"' in page) == (proof == "reauthenticated")
    assert (await ana.approve(approval)).status_code == 303
    found = await desk.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    (decision,) = found.decisions
    assert (decision.approver, decision.proof and decision.proof.kind) == ("ana", "passkey")
    assert "whose passkey signed it" in (await ana.client.get(f"/approvals/{approval.approval_id}")).text
    (known,) = await desk.ledger.of(TENANT).passkeys.of(TENANT, "ana")
    assert known.used_at is not None
    assert known.sign_count == ana.key.count


async def test_an_assertion_counts_once(desk: Office) -> None:
    """What was captured is good for nothing: its nonce is used up with it, whether it was taken or not."""
    first = await desk.park(proof="passkey", people=2)
    ana = await holder(desk)
    form, options = await ana.challenge(first)
    signed = ana.key.sign(options)
    await refused(desk, await post_decision(ana.client, first, {**form, "passkey": signed[:-30] + '"}}'}), first)
    spoilt = json.loads(signed)
    spoilt["response"]["signature"] = b64(b"0" * 70)
    await refused(desk, await post_decision(ana.client, first, {**form, "passkey": json.dumps(spoilt)}), first)
    await refused(desk, await post_decision(ana.client, first, {**form, "passkey": signed}), first)
    assert (await ana.approve(first)).status_code == 303


async def test_what_was_signed_for_one_approval_says_nothing_of_another(desk: Office) -> None:
    small, large = await desk.park(proof="passkey"), await desk.park(proof="passkey", title="Refund 400.00 USD")
    ana = await holder(desk)
    form, options = await ana.challenge(small)
    moved = {**form, "action_digest": large.action_digest, "passkey": ana.key.sign(options)}
    await refused(desk, await post_decision(ana.client, large, moved), large)
    # With a nonce of the other's, too: the challenge itself has the digest in it.
    theirs, _ = await ana.challenge(large)
    moved = {**theirs, "passkey": ana.key.sign(options)}
    await refused(desk, await post_decision(ana.client, large, moved), large)


async def test_another_persons_passkey_proves_nothing(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    ana, ben = await holder(desk), await holder(desk, "ben")
    form, options = await ana.challenge(approval)
    await refused(desk, await post_decision(ana.client, approval, {**form, "passkey": ben.key.sign(options)}), approval)
    # Nor does one that says to be hers.
    impostor = Authenticator(ORIGIN, credential_id=ana.key.credential_id, count=100)
    form, options = await ana.challenge(approval)
    sent = {**form, "passkey": impostor.sign(options)}
    await refused(desk, await post_decision(ana.client, approval, sent), approval)
    # Nor hers, for what he was asked.
    form, options = await ben.challenge(approval)
    sent = {**form, "csrf": (await ana.challenge(approval))[0]["csrf"], "passkey": ana.key.sign(options)}
    await refused(desk, await post_decision(ana.client, approval, sent), approval)


async def test_whoever_is_not_verified_proves_nothing(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    ana = await holder(desk)
    ana.key.verifies = False
    await refused(desk, await ana.approve(approval), approval)


@pytest.mark.parametrize(
    "changes",
    [{"origin": "https://evil.example"}, {"type": "webauthn.create"}, {"challenge": b64(bytes(32))}, {"origin": None}],
)
async def test_what_was_signed_somewhere_else_or_for_something_else_proves_nothing(
    desk: Office, changes: dict[str, Any]
) -> None:
    approval = await desk.park(proof="passkey")
    ana = await holder(desk)
    form, options = await ana.challenge(approval)
    sent = {**form, "passkey": ana.key.sign(options, **changes)}
    await refused(desk, await post_decision(ana.client, approval, sent), approval)


async def test_an_authenticator_that_was_copied_is_noticed(desk: Office) -> None:
    first, second = await desk.park(proof="passkey"), await desk.park(proof="passkey")
    ana = await holder(desk)
    ana.key.count = 50
    assert (await ana.approve(first)).status_code == 303
    desk.temporal.signals.clear()
    ana.key.count = 20
    await refused(desk, await ana.approve(second), second)


async def test_a_challenge_does_not_wait_for_ever(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    ana = await holder(desk)
    form, options = await ana.challenge(approval)
    await desk.ledger.system.execute("UPDATE passkey_nonces SET expires_at = expires_at - interval '301 seconds'")
    await refused(desk, await post_decision(ana.client, approval, {**form, "passkey": ana.key.sign(options)}), approval)


async def test_a_passkey_that_was_removed_proves_nothing(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    ana = await holder(desk)
    form, options = await ana.challenge(approval)
    await desk.ledger.of(TENANT).passkeys.remove(TENANT, "ana", ana.key.credential_id)
    await refused(desk, await post_decision(ana.client, approval, {**form, "passkey": ana.key.sign(options)}), approval)


async def test_attempts_with_a_passkey_are_counted_too(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    ana = await holder(desk)
    form, _ = await ana.challenge(approval)
    codes = [(await post_decision(ana.client, approval, {**form, "passkey": "{}"})).status_code for _ in range(7)]
    assert codes[-1] == 429


async def test_without_one_the_page_says_what_to_do(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    client = await sign_in_there(desk, "ana")
    page = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "You have none here yet." in page
    assert 'value="approve"' not in page
    form = {"csrf": hidden(page, "csrf"), "action_digest": approval.action_digest}
    away = await client.post(f"/approvals/{approval.approval_id}/passkey", data=form)
    assert (away.status_code, away.headers["location"]) == (303, f"/approvals/{approval.approval_id}")


async def test_nobody_is_asked_to_sign_what_they_may_not_decide(desk: Office) -> None:
    approval = await desk.park(proof="passkey", actor_id="ana")
    ana = await holder(desk)
    form = {"csrf": hidden((await ana.client.get("/account")).text, "csrf"), "action_digest": approval.action_digest}
    away = await ana.client.post(f"/approvals/{approval.approval_id}/passkey", data=form)
    assert away.status_code == 303


async def test_the_account_is_for_those_who_are_signed_in(desk: Office) -> None:
    assert (await browser(desk).get("/account")).headers["location"] == "/signin?next=%2Faccount"


# Checked anywhere


async def exported(desk: Office) -> Evidence:
    approval = await desk.park(proof="passkey", **BOUND)
    assert (await (await holder(desk)).approve(approval)).status_code == 303
    approvals = desk.ledger.of(TENANT).approvals
    found = await approvals.get(TENANT, approval.approval_id)
    assert found is not None
    tokens = [token for token, _ in await approvals.granted_by(approval.approval_id)]
    made = evidence_of(found, tokens, verifying_keys(MasterKey(bytes(32))))
    assert made is not None
    return Evidence.model_validate_json(made.model_dump_json())


async def test_what_was_exported_holds_and_nothing_in_it_can_be_altered(desk: Office) -> None:
    whole = await exported(desk)
    check(whole)
    check(whole, whole.service_key.encode())
    other = verifying_key_pem(MasterKey(b"1" * 32))
    with pytest.raises(BrokenEvidence, match="not signed by the service's key"):
        check(whole, other)
    (only,) = whole.decisions
    proof = only.decision.proof
    assert proof is not None
    assert proof.assertion is not None
    decided: list[tuple[dict[str, Any], str]] = [
        ({"verdict": "deny"}, "not the one that the service signed"),
        ({"approver": "ben"}, "not the one that the service signed"),
        ({"action_digest": "0" * 64}, "not the one that the service signed"),
        ({"decided_at": only.decision.decided_at + timedelta(seconds=1)}, "not the one that the service signed"),
        ({"proof": None}, "not the one that the service signed"),
    ]
    for change, problem in decided:
        altered = only.model_copy(update={"decision": only.decision.model_copy(update=change)})
        with pytest.raises(BrokenEvidence, match=problem):
            check(whole.model_copy(update={"decisions": (altered,)}))
    for change, problem in (
        ({"action": {**ACTION, "arguments": {"amount_cents": 31_241}}}, "not the one that its digest stands for"),
        ({"action_digest": "0" * 64}, "not the one that its digest stands for"),
        ({"approval_id": f"apr_{'0' * 32}"}, "about another action"),
        ({"service_key": "no key"}, "key is none"),
        ({"service_key": other.decode()}, "not signed by the service's key"),
        ({"decisions": ()}, "no decision"),
        ({"decisions": (only, only)}, "two decisions of one person"),
        (
            {"decisions": (only.model_copy(update={"token": f"{only.token[:-8]}AAAAAAAA"}),)},
            "not signed by the service",
        ),
    ):
        with pytest.raises(BrokenEvidence, match=problem):
            check(whole.model_copy(update=change))


async def test_not_even_the_service_can_alter_what_a_passkey_signed(desk: Office) -> None:
    """Whoever has the service's signing key cannot make another decision of it."""
    whole = await exported(desk)
    (only,) = whole.decisions
    proof = only.decision.proof
    assert proof is not None
    assert proof.assertion is not None
    other: dict[str, Any] = {"tenant": TENANT, "arguments": {"amount_cents": 1}}
    changes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"approver": "ben"}, {}),
        ({"verdict": "deny"}, {}),
        ({"policy_version": "other@000000000000"}, {}),
        ({"action_digest": digest(other)}, {"action": other, "action_digest": digest(other)}),
        ({"approval_id": f"apr_{'0' * 32}"}, {"approval_id": f"apr_{'0' * 32}"}),
    ]
    for name in ("nonce", "signature", "public_key", "client_data_json", "authenticator_data"):
        value = getattr(proof.assertion, name)
        spoilt = proof.assertion.model_copy(update={name: ("B" if value[0] == "A" else "A") + value[1:]})
        changes.append(({"proof": proof.model_copy(update={"assertion": spoilt})}, {}))
    for change, around in changes:
        decision = only.decision.model_copy(update=change)
        token = desk.app.state.context.signer.sign(decision)
        altered = only.model_copy(update={"decision": decision, "token": token})
        with pytest.raises(BrokenEvidence, match="did not sign it"):
            check(whole.model_copy(update={**around, "decisions": (altered,)}))
