"""What a run did, and what it may do next because of that. Pure."""

from collections.abc import Sequence
from typing import get_args

from schemas.calls import Doing, RunFacts
from schemas.tools import CapabilityClass
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
