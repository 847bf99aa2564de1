"""The matrix of tools: what each is to a model, what it can reach, what stands before it, and how that does."""

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from gateways.registry import ORDER_SYSTEMS, PAYMENT_GATEWAYS
from ledger.gates import Gates, ToolCalls
from ledger.ledger import Ledger
from ledger.measures import Rate
from ledger.periods import Period
from ledger.vault import ANY_TOOL, Stored
from policy.model import Hold, Policy, PolicyTool
from schemas.switches import EVERYONE
from schemas.tools import Manifest
from tools.catalog import Catalog, Entry

_CHARACTERS_PER_TOKEN = 4
"""What tokenizers of English text and JSON come to, about; each model has its own."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a model is given of a tool, in characters."""

    description: int
    schema: int

    @property
    def tokens(self) -> int:
        """About how many tokens that is."""
        return round((self.description + self.schema) / _CHARACTERS_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that a policy says before a call runs, in the order of evaluation."""

    verdict: str
    rule: str
    who: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One tool. `credentials`: ids of the vault's records that its effect may be sent with; empty also where the vault
    was not asked. `reaches`: each system, and whether it may be written to. `use`: of the last 30 days; None where no
    ledger was asked."""

    entry: Entry
    seen: Seen
    code: str
    credentials: tuple[str, ...]
    reaches: tuple[tuple[str, bool], ...]
    gate: tuple[Step, ...]
    use: ToolCalls | None = None
    rate: Rate | None = None

    @property
    def before(self) -> list[tuple[str, int, str]]:
        """(verdict, how many rules may say it, whom they ask) before the last, which says what is without them."""
        said: dict[str, list[str]] = {}
        for step in self.gate[:-1]:
            said.setdefault(step.verdict, []).append(step.who)
        return [(verdict, len(who), ", ".join(sorted({*who} - {""}))) for verdict, who in said.items()]


def inventory(
    catalog: Catalog,
    policy: Policy | None,
    *,
    stored: Iterable[Stored] = (),
    use: Mapping[str, ToolCalls] | None = None,
    rates: Mapping[str, Rate | None] | None = None,
) -> list[Line]:
    """Every tool, by name; `policy` None where none can be used. Pure."""
    kept = [each for each in stored if each.retired_at is None]
    return [
        Line(
            entry=entry,
            seen=_seen(entry),
            code=_code(entry),
            credentials=tuple(each.credential_id for each in kept if _serves(each, entry)),
            reaches=_reaches(entry.manifest),
            gate=_gate(entry, policy),
            use=None if use is None else use.get(entry.manifest.name, ToolCalls(0, 0, 0, 0)),
            rate=(rates or {}).get(entry.manifest.name),
        )
        for entry in catalog.all()
    ]


async def measured(
    ledger: Ledger, catalog: Catalog, policy: Policy | None, period: Period, tenant: str | None = None
) -> list[Line]:
    """The same, with the credentials there are and how the gates did in a period, for a tenant or (None) for all."""
    gates = Gates(ledger.system if tenant is None else ledger.database.tenant(tenant))
    reads = [entry.manifest.name for entry in catalog.all() if not entry.manifest.writes]
    report = await gates.report(tenant, period, reads=reads)
    stored = [each for each in await ledger.vault.stored() if tenant is None or each.tenant in (tenant, EVERYONE)]
    return inventory(
        catalog,
        policy,
        stored=stored,
        use=await gates.calls(tenant, period),
        rates={each.tool: each.outcomes.rate for each in report.gates if each.rule is None},
    )


def as_json(line: Line) -> dict[str, object]:
    """All of it as plain values."""
    manifest = line.entry.manifest
    radius = manifest.blast_radius
    return {
        **{name: getattr(manifest, name) for name in ("name", "version", "title", "owner", "published", "risk")},
        "effective_risk": manifest.effective_risk,
        "missing": list(manifest.missing),
        "sees": {
            "description_characters": line.seen.description,
            "schema_characters": line.seen.schema,
            "tokens_about": line.seen.tokens,
        },
        "code": line.code,
        "credential": manifest.credential,
        "credential_ids": list(line.credentials),
        "scopes": list(manifest.scopes),
        "reaches": [{"system": system, "access": "write" if writes else "read"} for system, writes in line.reaches],
        "capability_classes": list(manifest.capability_classes),
        "reversibility": manifest.reversibility,
        "undo_tool": manifest.undo_tool,
        "blast_radius": None if radius is None else radius.model_dump(),
        "side_effects": list(manifest.side_effects),
        "queue": manifest.queue,
        "gate": [{"verdict": each.verdict, "rule": each.rule, "who": each.who or None} for each in line.gate],
        "otherwise": line.gate[-1].verdict,
        "last_30_days": None if line.use is None else {**_use(line.use), "approve_rate": _rate(line.rate)},
    }


def last_30_days(until: datetime) -> Period:
    """What `Line.use` is of."""
    return Period(until - timedelta(days=30), until)


def _use(use: ToolCalls) -> dict[str, int]:
    return {"calls": use.calls, "held": use.held, "refused": use.refused, "executed": use.executed}


def _rate(rate: Rate | None) -> dict[str, float | int] | None:
    return None if rate is None else {"percent": round(rate.percent, 1), "decisions": rate.decided}


def _reaches(manifest: Manifest) -> tuple[tuple[str, bool], ...]:
    return tuple((system, manifest.writes and system == manifest.writes_to) for system in manifest.systems)


def _seen(entry: Entry) -> Seen:
    schema = json.dumps(entry.description.input_schema, separators=(",", ":"), ensure_ascii=False)
    return Seen(len(entry.description.description), len(schema))


def _code(entry: Entry) -> str:
    """`tools/issue_refund/tool.py:34`, as seen from the folder that the tool's own folder is in."""
    source = inspect.getsourcefile(type(entry.tool))
    folder = entry.manifest_file.parent
    if source is None or folder not in Path(source).parents:
        # Its behaviour is declared, or comes from elsewhere.
        return f"{folder.parent.name}/{folder.name}/manifest.yaml"
    line = inspect.getsourcelines(type(entry.tool))[1]
    return f"{Path(source).relative_to(folder.parent.parent)}:{line}"


def _serves(credential: Stored, entry: Entry) -> bool:
    """Whether a record of the vault is one that the tool's effect may be sent with. It is kept under the name of the
    gateway or order system that stands for the tool's system."""
    system = entry.manifest.credential
    names = {"payments": PAYMENT_GATEWAYS.keys(), "orders": ORDER_SYSTEMS.keys()}.get(system or "", {system})
    return credential.system in names and credential.tool in (ANY_TOOL, entry.manifest.name)


def _gate(entry: Entry, policy: Policy | None) -> tuple[Step, ...]:
    """What the policy does, and what holds beside it."""
    if policy is None:
        return (Step("refuse", "no policy can be used"),)
    manifest, tool = entry.manifest, policy.tool(entry.manifest.name)
    if tool is None:
        return (Step("hold", "no_policy", policy.approvers) if manifest.writes else Step("refuse", "no_policy"),)
    last = Step(tool.otherwise, "otherwise", policy.approvers if tool.otherwise == "hold" else "")
    if manifest.effective_risk == "critical" and tool.otherwise in ("free", "notify"):
        last = Step(
            "hold" if manifest.writes else "refuse", "critical_risk", policy.approvers if manifest.writes else ""
        )
    return (*_refusals(tool), *(_hold(rule) for rule in tool.holds), last)


def _refusals(tool: PolicyTool) -> Iterable[Step]:
    yield from (Step("refuse", rule.name) for rule in tool.refusals)
    if tool.breaker is not None:
        yield Step("refuse", "breaker")
    yield from (Step("refuse", limit.name) for limit in tool.limits)


def _hold(rule: Hold) -> Step:
    return Step("hold", rule.name, f"{rule.people} of {rule.approvers}" if rule.people > 1 else rule.approvers)
