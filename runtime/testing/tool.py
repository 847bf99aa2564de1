"""A tool as its tests ask it: without a database, a network or a clock of its own."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from pydantic import JsonValue

from activities import deciding
from activities.deciding import Proposed
from ledger.admission import Reads
from ledger.admission import Usage as Counted
from policy.decide import decide
from policy.document import ToolText
from policy.load import DEFAULT_POLICY
from policy.model import BREAKER, NOTHING_DONE, PARKED_PER_AGENT, PARKED_PER_TENANT, Policy, Proposal, Usage
from policy.resolve import resolve
from runtime.policy import load_checked
from runtime.testing.cases import RedCase, Refused
from runtime.testing.hostile import hostile_arguments
from schemas.calls import Binding, Call, RunFacts
from schemas.canonical import digest
from schemas.codes import Code
from schemas.decisions import PolicyDecision
from schemas.replies import Explanation
from schemas.switches import code_of, of_call
from schemas.tools import DECLARED, Manifest
from tools.arguments import object_schema
from tools.catalog import BUILT_IN, Catalog, Entry
from tools.doings import in_phase
from tools.protocol import Arguments, Refusal, WriteArguments, WriteTool

Values = Mapping[str, JsonValue]

_KEY = "0123456789abcdef" * 2
_BINDING = Binding(tenant="tests", run_id="run_1", agent_id="bot", actor_id="user_17", customer_id="cus_example")


class ToolUnderTest:
    """A tool, among all others that there are, and the policy over them."""

    def __init__(self, entry: Entry, catalog: Catalog, policy: Policy) -> None:
        self._entry, self._catalog, self._policy = entry, catalog, policy

    @classmethod
    def load(cls, folder: Path, policy: Path = DEFAULT_POLICY) -> Self:
        """The tool in a folder, beside the built-in ones and those next to it. Raises CatalogError and PolicyError."""
        folder = folder.resolve()
        catalog = Catalog.load(*([] if folder.parent == BUILT_IN else [folder.parent]))
        entry = catalog.get(folder.name)
        if entry is None:
            raise LookupError(f"{folder} holds no manifest.yaml")
        return cls(entry, catalog, load_checked(policy, catalog))

    @property
    def manifest(self) -> Manifest:
        return self._entry.manifest

    @property
    def rules(self) -> frozenset[str]:
        """The names of the rules that decide about it, without those across all tools of its kinds."""
        said = self._policy.document.tools.get(self.manifest.name)
        return frozenset(rule.name for rule in said.rules) if said else frozenset()

    def refusal(self, arguments: Values) -> Refusal | None:
        """Why arguments are not taken; None where they are. A write's key is given where it is left out."""
        taken = self._validated(arguments)
        return taken if isinstance(taken, Refusal) else None

    def decide(
        self, arguments: Values, facts: Values | None = None, run: RunFacts = NOTHING_DONE, **totals: int
    ) -> PolicyDecision:
        """What the policy says about a call on these facts, with nothing counted beside the `totals` that are named.
        `run`: what its run did before.

        `facts_at` is now where it is left out. Raises AssertionError for arguments that are not taken, ValidationError
        for facts that the tool does not read so.
        """
        if not isinstance(self._entry.tool, WriteTool):
            return deciding.decide_read(self._policy, self._call(arguments), self._entry, run)
        proposed = self._proposed(arguments, facts or {})
        tool = self._policy.tool(self.manifest.name)
        limits = [limit.name for limit in tool.limits] if tool else []
        nothing = {name: Usage(0) for name in (*limits, BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT)}
        zero = {each.name: 0 for each in (tool.totals if tool else ())}
        return deciding.evaluate(self._policy, proposed, run, zero | totals, nothing, 0)

    def red_cases(self, call: Values, facts: Values | None = None) -> list[RedCase]:
        """What must not be possible with this tool. `call` is one that is right, `facts` what it is decided on; without
        facts a write is not admitted in full where a switch is off."""
        return [*self._arguments(call), *self._offered(), *self._switched_off(call, facts), *self._undeclared()]

    def _keyed(self, arguments: Values) -> dict[str, JsonValue]:
        return {"idempotency_key": _KEY, **arguments} if self.manifest.writes else dict(arguments)

    def _validated(self, arguments: Values) -> Arguments | Refusal:
        return self._catalog.validate_arguments(self.manifest.name, self._keyed(arguments))

    def _call(self, arguments: Values) -> Call:
        taken = self._validated(arguments)
        if isinstance(taken, Refusal):
            raise AssertionError(f"the call is not taken: {taken.explanation.values.get('problem')}")
        given = self._keyed(arguments)
        return Call(
            request_id="act_" + "0" * 32,
            binding=_BINDING,
            tool=self.manifest.name,
            tool_version=self.manifest.version,
            arguments=given,
            arguments_digest=digest(given),
            key_hash="",
            workflow_id="",
        )

    def _proposed(self, arguments: Values, facts: Values) -> Proposed:
        tool = cast("WriteTool[Any, Any, Any]", self._entry.tool)
        call, taken = self._call(arguments), cast(WriteArguments, self._validated(arguments))
        known = {"facts_at": datetime.now(UTC).isoformat()} if "facts_at" in tool.facts_model.model_fields else {}
        read = tool.facts_model.model_validate_json(json.dumps({**known, **facts}))
        return Proposed(call, self._entry, tool, taken, read)

    def _arguments(self, call: Values) -> Iterator[RedCase]:
        schema = object_schema(self._entry.tool.arguments_model)
        for tried, arguments in hostile_arguments(schema, self._keyed(call)):

            def attempt(given: dict[str, JsonValue] = arguments) -> Refused | str:
                example = self.refusal(call)
                if example is not None:
                    return f"the example is not taken either: {example.explanation.values.get('problem')}"
                taken = self._catalog.validate_arguments(self.manifest.name, given)
                return Refused(taken.code, taken.explanation) if isinstance(taken, Refusal) else "is taken"

            yield RedCase(tried, frozenset((Code.INVALID_INPUT,)), attempt)

    def _offered(self) -> Iterator[RedCase]:
        name = self.manifest.name
        internal = replace(self._entry, manifest=self.manifest.model_copy(update={"published": False}))
        for tried, entry, allowed in (
            ("a run that was not opened with it", self._entry, frozenset[str]()),
            ("a run that names it although it is internal", internal, frozenset((name,))),
        ):

            def attempt(entry: Entry = entry, allowed: frozenset[str] = allowed) -> Refused | str:
                offered = entry.offered_to(allowed)
                return "is offered" if offered else Refused(Code.TOOL_NOT_AVAILABLE, Explanation())

            yield RedCase(tried, frozenset((Code.TOOL_NOT_AVAILABLE,)), attempt)
        if self.manifest.phase is not None:
            yield RedCase(
                "a run that has not come to its phase", frozenset((Code.TOOL_NOT_AVAILABLE,)), self._too_early
            )

    def _too_early(self) -> Refused | str:
        if in_phase(self.manifest.phase, []):
            return "is offered"
        return _as_refused(deciding.out_of_phase(self._policy, self.manifest))

    def _switched_off(self, call: Values, facts: Values | None) -> Iterator[RedCase]:
        for switch in of_call(_BINDING, self.manifest.name, self.manifest.capability_classes):

            def attempt(switch: str = switch) -> Refused | str:
                if facts is None or not isinstance(self._entry.tool, WriteTool):
                    return _as_refused(deciding.switched_off(self._policy, switch))
                return self._admitted(self._proposed(call, facts), switch)

            yield RedCase(f"the switch {switch} is off", frozenset((code_of(switch),)), attempt)

    def _admitted(self, proposed: Proposed, switch: str) -> Refused | str:
        """What becomes of a write while a switch that covers it is off."""
        if switch not in proposed.switches:
            return "is not covered by it"
        windows = deciding.windows_for(self._policy.tool(self.manifest.name), proposed)
        usage = {window.name: Counted(0, 0, None) for window in windows}
        reads = Reads(datetime.now(UTC), 0, usage, switched_off=switch)
        admitted = deciding.admit(self._policy, proposed, NOTHING_DONE, windows, reads, inline=True)
        settled = admitted.events[-1]
        if settled.type != "call.settled":
            return f"ends in {settled.type}"
        return Refused(settled.code, settled.explanation or Explanation())

    def _undeclared(self) -> Iterator[RedCase]:
        """A tool that leaves a field of its manifest out is held, even where its policy would let everything run."""
        freely = self._policy_of(ToolText(otherwise="free"))
        for field in DECLARED:

            def attempt(field: str = field) -> Refused | str:
                said = self.manifest.model_dump(exclude_unset=True, exclude={field})
                try:
                    manifest = Manifest.model_validate(said)
                except ValueError:
                    return Refused(Code.PENDING_APPROVAL, _HELD)  # The service does not start with it at all.
                return self._held(freely, manifest)

            yield RedCase(f"{field} left out of the manifest", _NOT_FREE, attempt)
        nothing = replace(self._policy, tools={})
        yield RedCase("a policy that does not name it", _NOT_FREE, lambda: self._held(nothing, self.manifest))

    def _policy_of(self, text: ToolText) -> Policy:
        name = self.manifest.name
        tool, _ = resolve(name, text, self._policy.document.defaults, "", None, None)
        return replace(self._policy, tools={name: tool})

    def _held(self, policy: Policy, manifest: Manifest) -> Refused | str:
        usage = {name: Usage(0) for name in (PARKED_PER_AGENT, PARKED_PER_TENANT)}
        decision = decide(policy, Proposal(manifest.name, manifest, {}, usage=usage))
        return _as_refused(decision)


_HELD = Explanation(values={"expires_at": "2026-01-01T00:00:00Z"})
_NOT_FREE = frozenset((Code.PENDING_APPROVAL, Code.TOOL_NOT_AVAILABLE))


def _as_refused(decision: PolicyDecision) -> Refused | str:
    match decision.verdict:
        case "hold":
            return Refused(Code.PENDING_APPROVAL, _HELD)
        case "refuse":
            return Refused(decision.code or Code.INTERNAL_FAILURE, decision.explanation or Explanation())
        case verdict:
            return f"is {verdict}"
