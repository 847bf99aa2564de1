"""What approving and denying will do, in plain words. Pure."""

from dataclasses import dataclass

from api.pages.fields import currency_of
from api.pages.text import money
from schemas.decisions import Approval
from schemas.tools import Manifest
from tools.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Consequences:
    approving: str
    undoing: str
    checking: str
    denying: str


_CHECKING = "Just before, the facts are read again: if they no longer allow it, nothing is done."
_DENYING = "Nothing is done, and the agent is told not to ask for it again. Your reason is kept in the audit record."


def consequences_of(catalog: Catalog, approval: Approval) -> Consequences:
    """For a tool that is no longer registered the worst is assumed."""
    entry = catalog.get(approval.tool)
    undone_by = catalog.get(entry.manifest.undo_tool) if entry and entry.manifest.undo_tool else None
    manifest, undo = entry.manifest if entry else None, undone_by.manifest.title if undone_by else None
    return Consequences(_approving(approval, manifest), _undoing(manifest, undo), _CHECKING, _DENYING)


def _approving(approval: Approval, manifest: Manifest | None) -> str:
    does = _effect(approval, manifest)
    if len(approval.decisions) + 1 < approval.people:
        return f"Nothing yet: another person has to approve it too. Then {does[0].lower()}{does[1:]}"
    return does


def _effect(approval: Approval, manifest: Manifest | None) -> str:
    amount, currency = approval.arguments.get("amount_cents"), currency_of(approval)
    if manifest and manifest.operation == "refund" and isinstance(amount, int) and currency:
        return f"{money(amount, currency)} is sent back to the customer, once."
    return "Exactly this is done, once."


def _undoing(manifest: Manifest | None, undo: str | None) -> str:
    reversibility = manifest.reversibility if manifest else "irreversible"
    if reversibility == "irreversible":
        return "This cannot be undone."
    if reversibility == "compensable":
        return f"It cannot be taken back, only made up for: {undo}." if undo else "It cannot be taken back exactly."
    return f"It can be undone: {undo}." if undo else "It can be undone."
