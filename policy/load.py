"""Loads a policy from a file or a folder: read, checked as a whole, compiled once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from policy.coherence import findings_of
from policy.document import Measure, PolicyDocument, ToolText
from policy.files import Loaded, read_document, read_stored, read_text, with_own
from policy.model import Policy, PolicyTool
from policy.problems import PolicyError, Problem
from policy.resolve import resolve
from policy.roles import unfit_groups
from policy.vocabulary import Vocabulary
from schemas.canonical import digest

DEFAULT_POLICY = Path(__file__).parent / "policies" / "default.yaml"


def load_policy(
    path: Path, vocabularies: Mapping[str, Vocabulary] | None = None, beside: Mapping[str, Path] | None = None
) -> Policy:
    """The policy in a YAML file, or in the files of a folder.

    `vocabularies` has every tool there is, by name; without it, tools and the names under `args` and `facts` are not
    checked, so a service never leaves it out. `beside`: files with one tool's section each, which are parts of
    the policy and its version where it does not name the tool. Raises PolicyError with all problems found.
    """
    return _loaded(with_own(read_document(path), beside or {}), str(path), vocabularies)


def load_text(
    text: str, where: str, vocabularies: Mapping[str, Vocabulary], beside: Mapping[str, Path] | None = None
) -> Policy:
    """The same of a YAML text; `where` names it in problems."""
    return _loaded(with_own(read_text(text, where), beside or {}), where, vocabularies)


def load_stored(source: str, where: str, vocabularies: Mapping[str, Vocabulary]) -> Policy:
    """The policy that was stored as `stored_form` has it. Raises PolicyError."""
    return _loaded(read_stored(source, where), where, vocabularies)


def _loaded(loaded: Loaded, where: str, vocabularies: Mapping[str, Vocabulary] | None) -> Policy:
    document, file_of = loaded
    counted_for_tenant = measures_per_tenant(document)
    tools: dict[str, PolicyTool] = {}
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for name, text in document.tools.items():
        if vocabularies is not None and name not in vocabularies:
            problems.append(
                Problem(file_of[name], name, f"there is no such tool; there is {', '.join(sorted(vocabularies))}")
            )
            continue
        vocabulary = None if vocabularies is None else vocabularies[name]
        text, wrong = _with_its_kinds(text, document, vocabulary)
        problems.extend(Problem(file_of[name], name, each) for each in wrong)
        resolved, found = resolve(name, text, document.defaults, file_of[name], vocabulary, vocabularies)
        tools[name] = replace(resolved, counted_for_tenant=counted_for_tenant)
        problems.extend(found)
        if vocabulary is not None and not found:
            findings = findings_of(resolved, text, file_of[name], vocabulary)
            problems.extend(findings.problems)
            warnings.extend(findings.warnings)
    if problems:
        raise PolicyError(problems)
    policy = Policy(
        name=document.name,
        version=version_of(document),
        approvers=document.defaults.approvers,
        deadline_seconds=document.defaults.deadline,
        escalates_to=document.defaults.escalates_to,
        execute_within_seconds=document.defaults.execute_within,
        parked=document.defaults.parked,
        tools=tools,
        document=document,
        warnings=tuple(warnings),
    )
    if unfit := unfit_groups(policy, vocabularies or {}, file_of, where):
        raise PolicyError(unfit)
    return policy


def _with_its_kinds(
    text: ToolText, document: PolicyDocument, vocabulary: Vocabulary | None
) -> tuple[ToolText, list[str]]:
    """What is said of the tool, after what is said of every tool of its kinds; and what is wrong with that."""
    problems: list[str] = []
    known: set[str] = set()
    for kind in vocabulary.kinds if vocabulary else ():
        across = document.across.get(kind)
        if across is None:
            continue
        rules = tuple(rule for rule in across.rules if rule.name not in text.without)
        known.update(rule.name for rule in across.rules)
        if not rules:
            continue
        for mine, theirs in ((text.thresholds, across.thresholds), (text.totals, across.totals)):
            problems += [f"{name} is a name in {kind} already" for name in sorted(mine.keys() & theirs.keys())]
        text = text.model_copy(
            update={
                "thresholds": {**across.thresholds, **text.thresholds},
                "totals": {**across.totals, **text.totals},
                "rules": (*rules, *text.rules),
            }
        )
    if vocabulary is not None:
        problems += [f"without: no rule across its kinds is {name}" for name in text.without if name not in known]
    return text, problems


def measures_per_tenant(document: PolicyDocument) -> frozenset[Measure]:
    """What some tool counts over all tools of the tenant, so that the calls of each of them have to be counted."""
    counters = [
        *(each for tool in document.tools.values() for each in (*tool.totals.values(), *tool.limits)),
        *(each for across in document.across.values() for each in across.totals.values()),
    ]
    return frozenset(each.of for each in counters if each.per == "tenant")


def version_of(document: PolicyDocument) -> str:
    """`{name}@{12 hex digits}` over what the policy means: comments, layout and the order of keys do not matter."""
    return f"{document.name}@{digest_of(document)[:12]}"


def digest_of(document: PolicyDocument) -> str:
    """SHA-256 over all of what it means (RFC 8785), as 64 hex digits."""
    return digest(document.model_dump(mode="json", exclude_defaults=True))


def stored_form(document: PolicyDocument) -> str:
    """The text that it is stored as: JSON, without what is as it would be anyhow."""
    return document.model_dump_json(exclude_defaults=True)
