"""Kill switches in plain words: what each covers, what turning it stops and gives back. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ledger.switches import Covered
from schemas.canonical import digest
from schemas.switches import VAULT, SwitchOff, parse
from schemas.tools import CapabilityClass
from tools.catalog import Catalog

BREAKER = "breaker"
"""Who turned a switch off that a breaker did."""

_CLASSES: dict[CapabilityClass, str] = {
    "read_public": "Tools that read what is public",
    "read_private": "Tools that read what is private",
    "read_untrusted": "Tools that read what others wrote",
    "write_internal": "Tools that change our own records",
    "write_side_effect": "Tools that change something at another system",
    "money_movement": "Tools that move money",
    "external_communication": "Tools that write to people",
    "browser_or_code": "Tools that browse or run code",
    "memory_write": "Tools that write to an agent's memory",
    "credential_use": "Tools that use a credential",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to turn off: a switch by its name, or the kind of one whose id is asked for beside it."""

    name: str
    words: str


@dataclass(frozen=True, slots=True)
class Choices:
    """A group of choices."""

    label: str
    choices: tuple[Choice, ...]


BY_ID = ("agent", "run")


def choices(catalog: Catalog) -> list[Choices]:
    """What an operator can turn off for their own tenant."""
    manifests = [entry.manifest for entry in catalog.all()]
    there = {each for manifest in manifests for each in manifest.capability_classes}
    return [
        Choices("Everything", (Choice("all", in_words("all", catalog)), Choice(VAULT, in_words(VAULT, catalog)))),
        Choices(
            "A kind of action",
            tuple(
                Choice(f"class:{name}", _CLASSES[name])
                for name in sorted(get_args(CapabilityClass), key=lambda name: (name != "money_movement", name))
                if name in there
            ),
        ),
        Choices("One action", tuple(Choice(f"tool:{each.name}", each.title) for each in manifests)),
        Choices("By its id", (Choice("agent", "One agent"), Choice("run", "One run"))),
    ]


def in_words(name: str, catalog: Catalog) -> str:
    """What the switch of this name covers."""
    switch = parse(name)
    match switch.kind:
        case "all":
            return "Everything that agents ask for"
        case "vault":
            return "The vault: no credential is given out"
        case "tenant":
            return f"Everything for {switch.value}"
        case "tool":
            entry = catalog.get(switch.value)
            return entry.manifest.title if entry else f"The tool {switch.value}"
        case "class":
            return next(words for known, words in _CLASSES.items() if known == switch.value)
        case _:
            return f"The {switch.kind} {switch.value}"


def tools_under(name: str, catalog: Catalog) -> list[str]:
    """The titles of the tools that a class of them or the vault covers; none for another switch."""
    switch = parse(name)
    if switch.kind not in ("class", "vault"):
        return []
    wanted = "credential_use" if switch.kind == "vault" else switch.value
    return [each.manifest.title for each in catalog.all() if wanted in each.manifest.capability_classes]


@dataclass(frozen=True, slots=True)
class Off:
    """A switch that is off, as one tenant's operators see it. `mine`: they may turn it on."""

    switch: SwitchOff
    words: str
    mine: bool
    tripped: bool

    @property
    def seen(self) -> str:
        return state_of(self.switch)


def off_rows(off: Sequence[SwitchOff], tenant: str, catalog: Catalog) -> list[Off]:
    """What the ledger says is off for the tenant, in its order."""
    return [Off(each, in_words(each.name, catalog), each.tenant == tenant, each.off_by == BREAKER) for each in off]


def state_of(off: SwitchOff | None) -> str:
    """What a form carries to tell whether a switch still is as it was shown; empty for one that is on."""
    return "" if off is None else digest(off.model_dump(mode="json"))[:16]


def stops(covered: Covered, name: str) -> list[str]:
    """What turning it off does to what is there right now."""
    looked_up = (
        "Not even looking up is possible while no credential is given out."
        if name == VAULT
        else "Looking up goes on, but nothing is sent again."
    )
    deny = "Denying goes on, approving does not while it is off."
    gone = "Refused for good: turning it on again does not bring that back."
    return [
        _said(covered.runs, "open run", "can ask for this", "can ask for this"),
        _said(covered.parked, "call", "waits for a person", "wait for a person", deny),
        _said(covered.unsent, "call", "is decided and not sent yet", "are decided and not sent yet", gone),
        _said(covered.unknown, "outcome", "is not known", "are not known", looked_up),
        "What was sent already is not called back: it comes to its end.",
    ]


def comes_back(covered: Covered, off: SwitchOff) -> list[str]:
    """What turning it on gives back right now."""
    time = ", with the time that was left when it was turned off" if off.deadlines == "pause" else ""
    resent = "Sending again goes on only where that cannot do it twice."
    said = [
        _said(covered.runs, "open run", "can ask for this again", "can ask for this again"),
        _said(covered.parked, "call", "waits for a person", "wait for a person", f"Approving goes on{time}."),
        _said(covered.unknown, "outcome", "is not known", "are not known", resent),
        "What was refused meanwhile stays refused.",
    ]
    if off.off_by == BREAKER:
        said.append("The breaker counts from now on: what came before does not trip it again.")
    return said


def _said(number: int, what: str, one: str, many: str, then: str = "") -> str:
    """`3 calls wait. Then.`; of none only that there are none."""
    if number == 0:
        return f"No {what} {one}."
    counted = f"1 {what} {one}." if number == 1 else f"{number} {what}s {many}."
    return f"{counted} {then}".rstrip()
