"""What a run did, and what it may do next because of that. Pure."""

from collections.abc import Sequence
from typing import get_args

from schemas.calls import Doing, RunFacts
from schemas.tools import CapabilityClass, Phase
from tools.catalog import Catalog


def run_facts(catalog: Catalog, doings: Sequence[Doing]) -> RunFacts:
    """What a policy may know of a run. A tool that is no more in the catalog may have touched anything."""
    if not doings:
        return RunFacts()
    touched: set[CapabilityClass] = set()
    for doing in doings:
        entry = catalog.get(doing.tool)
        touched.update(get_args(CapabilityClass) if entry is None else entry.manifest.capability_classes)
    return RunFacts(tools=tuple(sorted(each.tool for each in doings)), touched=tuple(sorted(touched)))


def in_phase(phase: Phase | None, doings: Sequence[Doing]) -> bool:
    """Whether a tool is offered now: since one of `phase.after` was carried out, no call of `phase.until` was asked for
    that ran or still may. A call that came to nothing opens it again."""
    if phase is None:
        return True
    opened = [each.executed_at for each in doings if each.tool in phase.after and each.executed_at is not None]
    closed = [each.asked_at for each in doings if each.tool in phase.until]
    return bool(opened) and (not closed or max(closed) < max(opened))


def first_step(phase: Phase | None) -> str | None:
    """The tool that opens a phase."""
    return None if phase is None else phase.after[0]
