"""Whether a policy asks only those about a tool whom its manifest lets decide."""

from collections.abc import Mapping

from policy.model import Policy
from policy.problems import Problem
from policy.vocabulary import Vocabulary


def unfit_groups(
    policy: Policy, vocabularies: Mapping[str, Vocabulary], file_of: Mapping[str, str], file: str
) -> list[Problem]:
    """A problem for each group that could be asked and that the tool's `roles` do not name. Whatever a policy cannot
    decide goes to its default approvers, so they have to be named too."""
    problems: list[Problem] = []
    for name, vocabulary in vocabularies.items():
        if not vocabulary.roles:
            continue
        tool = policy.tool(name)
        asked = {"defaults": {policy.approvers, policy.escalates_to}} | {
            rule.name: {rule.approvers, rule.escalates_to} for rule in (tool.holds if tool else ())
        }
        for where, groups in asked.items():
            unfit = sorted(group for group in groups if group is not None and group not in vocabulary.roles)
            if unfit:
                what = f"asks {', '.join(unfit)}; the tool's manifest lets {', '.join(vocabulary.roles)} decide"
                problems.append(Problem(file_of.get(name, file), f"{name} / {where}", what))
    return problems
