"""What a kill switch reaches."""

from ledger.switches import Reach, ReachOf
from schemas.calls import Binding
from schemas.decisions import Approval
from schemas.switches import EVERYONE, Switch, of_call, parse
from tools.catalog import Catalog


class NotYoursError(Exception):
    """A switch of another tenant."""


def reach_of(switch: Switch, tenant: str, catalog: Catalog) -> Reach:
    """The calls that a tenant's switch covers; `*` turns it for everyone. Raises NotYoursError."""
    only = None if tenant == EVERYONE else tenant
    match switch.kind:
        case "tenant":
            if only not in (None, switch.value):
                raise NotYoursError(switch.value)
            return Reach(tenant=switch.value)
        case "tool":
            return Reach(tenant=only, tools=(switch.value,))
        case "class" | "vault":
            wanted = "credential_use" if switch.kind == "vault" else switch.value
            tools = [each.manifest.name for each in catalog.all() if wanted in each.manifest.capability_classes]
            return Reach(tenant=only, tools=tuple(tools))
        case "agent":
            return Reach(tenant=only, agent_id=switch.value)
        case "run":
            return Reach(tenant=only, run_id=switch.value)
        case "all":
            return Reach(tenant=only)


def reaches(catalog: Catalog) -> ReachOf:
    """What the switches cover, by their tenants and names."""
    return lambda tenant, name: reach_of(parse(name), tenant, catalog)


def covering(approval: Approval, catalog: Catalog) -> list[str]:
    """The switches that cover the call that an approval is about."""
    entry = catalog.get(approval.tool)
    binding = Binding(**{name: getattr(approval, name) for name in Binding.model_fields})
    return of_call(binding, approval.tool, entry.manifest.capability_classes if entry else ())
