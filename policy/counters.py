"""What a policy counts, from its text as the ledger keeps it, also of one that cannot be loaded any more. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from policy.model import BREAKER, Counter


def counters_of(document: Mapping[str, Any], tools: Mapping[str, Iterable[str]]) -> dict[str, dict[str, Counter]]:
    """By tool, what is counted for its calls, by name. `tools`: which there are, and of which kinds (`across`) each is.

    Whatever is not as it should be is left out, so that it counts as not known.
    """
    found: dict[str, dict[str, Counter]] = {}
    try:
        for name, kinds in tools.items():
            text = document["tools"].get(name)
            if text is not None:
                across = [document.get("across", {}).get(kind, {}) for kind in kinds]
                holding = [part for part in across if _holds(part, text.get("without", ()))]
                found[name] = {each.name: each for part in (*holding, text) for each in _counters(part)}
    except (KeyError, TypeError, AttributeError):
        return {}
    return found


def _holds(across: Mapping[str, Any], without: Collection[str]) -> bool:
    """Whether any of its rules holds for a tool; nothing is counted for rules that do not."""
    return any(rule["name"] not in without for rule in across.get("rules", ()))


def _counters(text: Mapping[str, Any]) -> list[Counter]:
    counters = [
        Counter(
            *(name, total["per"], total.get("window"), total["of"], total.get("unasked", False)),
            together=total.get("together", False),
        )
        for name, total in text.get("totals", {}).items()
    ]
    counters += [
        Counter(
            *(each["name"], each["per"], each.get("window"), each.get("of", "count")),
            max=each["max"],
            together=each.get("together", False),
        )
        for each in text.get("limits", ())
    ]
    if breaker := text.get("breaker"):
        counters.append(
            Counter(BREAKER, "tool", breaker["window"], "count", max=breaker["max"], trips=breaker["trips"])
        )
    return counters


def sections_of(document: Mapping[str, Any], tools: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """By tool, all of a policy's text that decides its calls. Where two are equal, so are the decisions about calls
    for which the same was counted. `tools` as above, and so are texts that are not as they should be."""
    try:
        across, named, defaults = document.get("across", {}), document["tools"], document["defaults"]
        return {
            name: [defaults, named.get(name), [[kind, across[kind]] for kind in kinds if kind in across]]
            for name, kinds in tools.items()
        }
    except (KeyError, TypeError, AttributeError):
        return {}
