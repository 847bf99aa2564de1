"""Plays recorded calls under a policy that is not in force, to see what it would change."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ledger.gates import Gates
from ledger.ledger import Ledger
from ledger.periods import Period
from ledger.recordings import Recordings, Unread
from policy.counters import counters_of, sections_of
from policy.document import kinds_of
from policy.load import stored_form
from policy.model import Policy
from policy.recount import looks_back
from policy.simulate import Known, Simulation
from policy.tally import Change, Tally
from tools.catalog import Catalog, Entry
from tools.protocol import WriteTool


@dataclass(frozen=True, slots=True)
class Waits:
    """How long people took, by tool and with `` for the others, in seconds (medians), and how many of them decided.
    Empty where nobody has decided anything."""

    seconds: dict[str, float]
    people: int


@dataclass(frozen=True, slots=True)
class Backtest:
    """What a candidate would have changed."""

    candidate: str
    period: Period
    tally: Tally
    unread: Unread
    waits: Waits
    versions: tuple[str, ...]
    """The policies that decided the calls."""
    uncounted: tuple[str, ...]
    """Those of them of which it is not known what they counted: for their calls everything was counted anew."""

    @property
    def hours(self) -> float:
        """From the first call that was decided again to the last, an hour at least."""
        first, last = self.tally.first, self.tally.last
        return 1.0 if first is None or last is None else max(1.0, (last - first).total_seconds() / 3600)


async def backtest(
    ledger: Ledger,
    catalog: Catalog,
    candidate: Policy,
    period: Period,
    *,
    tenant: str | None = None,
    changed: Callable[[Change], None] = lambda change: None,
    thorough: bool = False,
) -> Backtest:
    """Decide the calls of a period again, of a tenant or of all; `changed` is told of each that changes, in order.

    `thorough`: evaluate also where the candidate says the very same about a tool, so that the decision has to stand.
    """
    recordings = Recordings(ledger.system, ledger.keys)
    waits = await _waits(ledger, catalog, period, tenant)
    texts = await recordings.versions(period.since, period.until, tenant)
    kinds = {entry.manifest.name: _kinds(entry) for entry in catalog.all()}
    counted = {version: {} if text is None else counters_of(text, kinds) for version, text in texts.items()}
    if candidate.version in counted:
        counted[candidate.version] = {
            name: {each.name: each for each in tool.subjects_needed()} for name, tool in candidate.tools.items()
        }
    uncounted = tuple(sorted(version for version, found in counted.items() if not found))
    back = looks_back(candidate, counted.values())
    tools = {entry.manifest.name: _known(entry) for entry in catalog.all()}
    standing = {} if thorough else _standing(candidate, texts, kinds)
    simulation = Simulation(candidate, tools, counted, waits.seconds, period.since, standing)
    since = None if back is None else period.since - timedelta(seconds=back)
    unread = Unread()
    async for happened in recordings.read(since, period.until, tenant, unread, simulation.follows):
        for each in happened:
            change = simulation.happened(each)
            if change is not None:
                changed(change)
    now = await recordings.now()
    tally = simulation.finish(min(now, period.until))
    return Backtest(candidate.version, period, tally, unread, waits, tuple(sorted(texts)), uncounted)


async def _waits(ledger: Ledger, catalog: Catalog, period: Period, tenant: str | None) -> Waits:
    reads = [entry.manifest.name for entry in catalog.all() if not entry.manifest.writes]
    report = await Gates(ledger.system).report(tenant, period, reads=reads)
    seconds = {each.tool: each.outcomes.median_seconds for each in report.gates if each.rule is None}
    seconds[""] = report.total.median_seconds
    people = sum(each.outcomes.decided > 0 for each in report.approvers)
    return Waits({tool: each for tool, each in seconds.items() if each is not None}, people)


def _standing(
    candidate: Policy, texts: Mapping[str, Any], kinds: Mapping[str, tuple[str, ...]]
) -> dict[str, frozenset[str]]:
    """By version, the tools of which both say the same."""
    mine = sections_of(json.loads(stored_form(candidate.document)), kinds)
    found: dict[str, frozenset[str]] = {}
    for version, text in texts.items():
        theirs = {} if text is None else sections_of(text, kinds)
        same = (tool for tool, section in mine.items() if tool in theirs and theirs[tool] == section)
        found[version] = frozenset(mine if version == candidate.version else same)
    return found


def _known(entry: Entry) -> Known:
    words = entry.tool.untrusted_arguments if isinstance(entry.tool, WriteTool) else ()
    return Known(entry.manifest, frozenset(("idempotency_key", *words)))


def _kinds(entry: Entry) -> tuple[str, ...]:
    return kinds_of(entry.manifest.capability_classes, entry.manifest.reversibility)
