"""What there is to search after a stage, sink by sink; and whether operators find what they need."""

import json
import re

import httpx
from pydantic import JsonValue

from api.pages.diagnosis import tell
from schemas.codes import REGISTRY, Action, Code
from schemas.diagnostics import BOUNDARIES, Diagnostic
from schemas.events import DiagnosticOpened
from tests.canary.planted import AGENTS_WORDS, PERSONS_WORDS, Planted
from tests.canary.probes import Probe
from tests.canary.sinks import AGENTS_PLACE, PERSONS_PLACE, Content, apart, of_response
from tests.canary.world import TENANT, World
from tests.service import until

# Where the remote says when it takes requests again.
_OTHER_ACTIONS: dict[Code, Action] = {Code.RATE_LIMITED: "retry_after_delay"}
_OPENED = DiagnosticOpened(principal="olga", through="command_line")
_PAGES = {"ana": ("/", "/history", "/stats"), "olga": ("/", "/history", "/operations")}
_PERSONS_REASON = re.compile(r"<p>Reason: [^<]*</p>")
_RAISED = re.compile(r"<p>What was raised: .*?</p>|<details>.*?</details>", re.DOTALL)


def action_of(code: Code) -> Action:
    return _OTHER_ACTIONS.get(code, REGISTRY[code].action)


def check_reply(probe: Probe) -> None:
    """The agent was told what the table says."""
    reply = probe.reply
    told = (reply.get("code"), reply.get("action"))
    assert told == (probe.expected, action_of(probe.expected)), f"{probe.name}: the agent was told {told}"


def replies(probes: list[Probe]) -> tuple[list[Content], list[Content]]:
    """(answers to POST, answers to GET)"""
    posts = [of_response(probe.name, answer) for probe in probes for answer in probe.posts]
    return posts, [of_response(probe.name, answer) for probe in probes for answer in probe.gets]


async def accounts(world: World, probe: Probe) -> list[Content]:
    """Every account of a probe, which has to be there and complete. Its raw exceptions may quote anything."""

    async def found() -> list[Diagnostic] | None:
        opened = [
            account
            for request_id in sorted(probe.request_ids())
            for account in await world.ledger.of(TENANT).diagnostics.open(request_id, _OPENED, tenant=TENANT)
        ]
        return opened if len(opened) >= probe.accounts else None

    opened = await until(found)
    for account in opened:
        _check_account(probe, account)
    if probe.remote is not None:
        _check_exchange(probe, opened)
    return [_without_raised(probe, account) for account in opened]


def _check_account(probe: Probe, account: Diagnostic) -> None:
    told = tell(account)
    assert told.headline, probe.name
    assert told.sentences, probe.name
    assert account.code is not None, probe.name
    if account.status is not None and account.code == probe.reply["code"]:
        assert account.told == probe.reply["message"], probe.name
        assert f"“{account.told}”" in "\n".join(told.sentences), probe.name
    if account.edge is not None:
        assert account.edge.http_status in {answer.status_code for answer in probe.posts}, probe.name
    if probe.own_failure:
        assert account.failure or account.exchanges, f"{probe.name}: nothing says what was raised"


def _check_exchange(probe: Probe, opened: list[Diagnostic]) -> None:
    """The exchange with the remote that failed is told as far as it went, and with which credential's record."""
    assert probe.remote is not None
    there = [
        exchange
        for account in opened
        for exchange in account.exchanges
        if exchange.destination.startswith(probe.remote.base)
    ]
    assert there, f"{probe.name}: no account tells of the exchange"
    passed = BOUNDARIES.index(probe.remote.reached)
    for exchange in there:
        reached = {mark.name for mark in exchange.marks}
        assert probe.remote.reached in reached, f"{probe.name}: {reached}"
        assert not reached.intersection(BOUNDARIES[passed + 1 :]), f"{probe.name}: {reached}"
        assert exchange.credential_id.startswith("cred_"), probe.name
    destination = there[0].destination
    assert any(destination in sentence for account in opened for sentence in tell(account).sentences), probe.name


def _without_raised(probe: Probe, account: Diagnostic) -> Content:
    """An account with what was raised left out: that is kept as it was raised, here alone."""
    kept = account.model_dump(mode="json", exclude={"failure": {"text", "traceback"}})
    for exchange in kept["exchanges"]:
        exchange.pop("exception")
    return Content(f"{probe.name}, {account.step}", json.dumps(kept, ensure_ascii=False).encode())


async def pages(world: World, probes: list[Probe]) -> list[Content]:
    """Every page that an approver and an operator can see, and the approver's API."""
    found = [of_response(f"{probe.name}, a page", page) for probe in probes for page in probe.other]
    for person, browser in world.people.items():
        for path in _PAGES[person]:
            found.append(_page(f"{path} as {person}", await browser.get(path)))
        for probe in probes:
            if probe.approval_id is not None:
                page = await browser.get(f"/approvals/{probe.approval_id}")
                found += _approval_page(f"{probe.name}, approval as {person}", page, world.planted)
    for probe in probes:
        found += await _account_pages(world, probe)
        if probe.approval_id is not None:
            found += await _approval_json(world, probe)
    return found


def _page(label: str, page: httpx.Response) -> Content:
    """A page, save the reasons that people gave for what they decided."""
    head = of_response(label, page).content.removesuffix(page.content)
    return Content(label, head + _PERSONS_REASON.sub("", page.text).encode())


def _approval_page(label: str, page: httpx.Response, planted: Planted) -> list[Content]:
    """The agent's words may stand in the place for them and nowhere else; so may what a person wrote."""
    assert page.status_code == 200, label
    head = of_response(label, page).content.removesuffix(page.content)
    rest, words = apart(page.text, AGENTS_PLACE, PERSONS_PLACE)
    agents, persons = words[AGENTS_PLACE], words[PERSONS_PLACE]
    assert planted.card.text in agents, f"{label}: the agent's words are not shown"
    return [
        Content(label, head + rest.encode()),
        Content(f"{label}, the agent's words", agents.encode(), AGENTS_WORDS),
        Content(f"{label}, the person's words", persons.encode(), PERSONS_WORDS),
    ]


async def _account_pages(world: World, probe: Probe) -> list[Content]:
    """The pages of accounts, for operators alone; what was raised stands in its place."""
    found: list[Content] = []
    shown = 0
    for request_id in sorted(probe.request_ids()):
        path, label = f"/operations/diagnostics/{request_id}", f"{probe.name}, account"
        refused = await world.people["ana"].get(path)
        assert refused.status_code == 403, f"{label} as ana: {refused.status_code}"
        page = await world.people["olga"].get(path)
        shown += page.status_code == 200
        head = of_response(label, page).content.removesuffix(page.content)
        found += [of_response(label, refused), Content(label, head + _RAISED.sub("", page.text).encode())]
    assert bool(shown) == bool(probe.accounts), f"{probe.name}: olga sees {shown} pages of accounts"
    return found


async def _approval_json(world: World, probe: Probe) -> list[Content]:
    """The approver's API, where the agent's words and a person's have a field each."""
    headers = {"Authorization": f"Bearer {world.approver_token}"}
    answer = await world.api.get(f"/v1/approvals/{probe.approval_id}", headers=headers)
    shown: dict[str, JsonValue] = answer.json()
    label = f"{probe.name}, approval by API"
    agents = json.dumps(shown.pop("untrusted"), ensure_ascii=False).encode()
    decisions = shown["decisions"]
    assert isinstance(decisions, list)
    reasons = [each.pop("reason") for each in decisions if isinstance(each, dict)]
    return [
        Content(label, json.dumps(shown, ensure_ascii=False).encode() + str(answer.headers.raw).encode()),
        Content(f"{label}, the agent's words", agents, AGENTS_WORDS),
        Content(f"{label}, the person's words", json.dumps(reasons, ensure_ascii=False).encode(), PERSONS_WORDS),
    ]
