"""What the service itself turns away, and what a person does."""

import asyncio
import json
import secrets
from typing import Any
from urllib.parse import quote

from schemas.codes import Code
from tests.canary import probes
from tests.canary.outside import Shop
from tests.canary.planted import token
from tests.canary.probes import Probe
from tests.canary.world import World, hidden
from tests.service import refund_arguments

CALLS = "/v1/tool-calls"


async def control(world: World) -> list[Probe]:
    """Nothing fails: the secrets go where they should, and nowhere else. One call waits in the inbox from here on."""
    plays = (probes.refund, probes.approved_refund, probes.cancel, probes.lookup)
    waits = await probes.held(world, "waits for a person", Code.PENDING_APPROVAL)
    return [waits, *await asyncio.gather(*(play(world, Code.OK) for play in plays))]


async def invalid_input(world: World) -> list[Probe]:
    """Secrets as values that do not fit, as names that are not known, in what is no JSON, in parameters and paths."""
    told, card, email = world.planted.told, world.planted.card.text, world.planted.email.text
    order = await _order(world.shop)
    good = refund_arguments(order, probes.FREE, note=world.planted.note)
    bodies: dict[str, Any] = {
        "values": {"tool": "issue_refund", "arguments": {**good, "order_id": told, "currency": email}},
        "numbers": {"tool": "issue_refund", "arguments": {**good, "amount_cents": told, "reason_code": card}},
        "names of arguments": {"tool": "issue_refund", "arguments": {**good, told: 1, card: 1}},
        "names of fields": {"tool": "issue_refund", "arguments": good, told: card, email: {}},
        "types": {"tool": "issue_refund", "arguments": told, "dry_run": card},
        "a key": {"tool": "issue_refund", "arguments": {**good, "idempotency_key": told}},
        "a note that is too long": {"tool": "issue_refund", "arguments": {**good, "note": f"{told} " * 20}},
        "a dry run": {"tool": "issue_refund", "arguments": {**good, "reason_code": email}, "dry_run": True},
        "malformed JSON": f'{{"tool": {json.dumps(told)}, "tool": {json.dumps(told)}, "arguments": ',
        "too large a body": {"tool": "issue_refund", "arguments": {**good, "note": told + "x" * 65_536}},
        "an array": [told, card],
    }
    played = [await _post(world, name, Code.INVALID_INPUT, body) for name, body in bodies.items()]
    played.append(await _post(world, "the name of a tool", Code.TOOL_NOT_AVAILABLE, {"tool": email, "arguments": {}}))
    body = {"tool": "issue_refund", "arguments": good}
    query = {"wait_seconds": told, told: told}
    played.append(await _post(world, "a parameter", Code.INVALID_INPUT, body, params=query))
    played.append(await _post(world, "a content type", Code.INVALID_INPUT, told, content_type=f"text/{email}"))
    for name, told_there in (("a path", f"act_{told}"), ("another path", card)):
        probe = await _probe(world, name, Code.INVALID_INPUT)
        probe.posts.append(await world.api.get(f"{CALLS}/{quote(told_there, safe='')}", headers=probe.headers()))
        played.append(probe)
    opening = Probe("the opening of a run", Code.INVALID_INPUT, accounts=1)
    bad = {"agent_id": told, "actor_id": email, "customer_id": card, "tools": [told], told: 1}
    opening.posts.append(await world.api.post("/v1/runs", json=bad, headers=_bearer(world.service_token)))
    return [*played, opening]


async def unauthenticated(world: World) -> list[Probe]:
    """Tokens that are none, but look like something that somebody keeps."""
    planted = world.planted
    headers = {
        "the gateway's key": f"Bearer {planted.gateway_key.text}",
        "the master key": f"Bearer {planted.master_key.value.hex()}",
        "a card": f"Bearer {planted.card.text}",
        "a password": f"Basic {planted.password.text}",
        "an address": f"Bearer {planted.email.text}",
    }
    played: list[Probe] = []
    for name, value in headers.items():
        for method, path in (("POST", CALLS), ("GET", f"{CALLS}/act_{secrets.token_hex(16)}")):
            probe = Probe(f"{name}, {method}", Code.UNAUTHENTICATED, accounts=1)
            answer = await world.api.request(method, path, headers={"Authorization": value}, json={planted.told: 1})
            probe.posts.append(answer)
            played.append(probe)
    probe = await _probe(world, "a token in the query", Code.UNAUTHENTICATED)
    assert probe.run_token is not None
    query = {"access_token": probe.run_token.text, "token": planted.told}
    probe.posts.append(await world.api.get("/v1/tools", params=query))
    return [*played, probe]


async def forbidden(world: World) -> list[Probe]:
    """Good tokens of the wrong kind."""
    secret_body = {world.planted.told: world.planted.told}
    run = await _probe(world, "a run's token", Code.FORBIDDEN)
    run.posts.append(await world.api.post("/v1/runs", json=secret_body, headers=run.headers()))
    played = [run]
    for name, value in (("the service's token", world.service_token), ("an approver's token", world.approver_token)):
        probe = Probe(name, Code.FORBIDDEN, accounts=1)
        probe.posts.append(await world.api.post(CALLS, json=secret_body, headers=_bearer(value)))
        played.append(probe)
    return played


async def denied(world: World) -> list[Probe]:
    """A person denies it, and writes down why with everything that the agent must not learn."""
    planted = world.planted
    reason = f"{planted.reason.text} {planted.card.text} {planted.email.text}"
    through_api = await probes.held(world, "denied through the API", Code.USER_DENIED, accounts=1)
    await probes.decide(world, through_api, "deny", reason)
    through_form = await probes.held(world, "denied on the page", Code.USER_DENIED, accounts=1)
    ana, path = world.people["ana"], f"/approvals/{through_form.approval_id}"
    page = (await ana.get(path)).text
    form = {name: hidden(page, name) for name in ("csrf", "action_digest")}
    answer = await ana.post(f"{path}/decision", data={**form, "decision": "deny", "reason": reason})
    assert answer.status_code == 303, answer.status_code
    for probe in (through_api, through_form):
        await probes.ask(world, probe)
        await probes.rest(world, probe)
    return [through_api, through_form]


async def _order(shop: Shop) -> dict[str, Any]:
    return await shop.order(50_000)


async def _probe(world: World, name: str, expected: Code) -> Probe:
    run = await world.open_run((await _order(world.shop))["customer_id"])
    return Probe(name, expected, run_token=token(run.token), accounts=1)


async def _post(
    world: World,
    name: str,
    expected: Code,
    body: Any,
    *,
    params: dict[str, str] | None = None,
    content_type: str = "application/json",
) -> Probe:
    probe = await _probe(world, name, expected)
    content = body if isinstance(body, str) else json.dumps(body)
    headers = {**probe.headers(), "Content-Type": content_type}
    probe.posts.append(await world.api.post(CALLS, content=content, params=params, headers=headers))
    return probe


def _bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}
