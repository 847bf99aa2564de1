"""Whether formulas can hold together, and an example where they do.

Exact where it says that nothing can make them hold: what cannot be reasoned about counts as possible. Sums of whole
numbers are taken apart by Fourier and Motzkin's elimination; CEL's overflow beyond 64 bits is left out of account.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

from policy.formulas import All, AtMost, Flag, Formula, Is, Literal, Some
from policy.vocabulary import Domain

_MOST_CASES = 4_000
_MOST_BOUNDS = 400

Example = dict[str, int | str | bool]


class TooManyCases(Exception):
    """There are more cases than are worth trying: nothing can be told."""


def examples(formulas: Sequence[Formula], domains: Mapping[str, Domain]) -> Iterator[Example]:
    """Values of names on which all of these hold, of one case after the other; none where nothing can make them hold.

    Pieces that cannot be reasoned about are not in it. Raises TooManyCases.
    """
    for tried, case in enumerate(_cases(list(formulas), {})):
        if tried > _MOST_CASES:
            raise TooManyCases
        example = _example(case, domains)
        if example is not None:
            yield example


def can_hold(formulas: Sequence[Formula], domains: Mapping[str, Domain]) -> bool:
    """Raises TooManyCases."""
    return next(examples(formulas, domains), None) is not None


def _cases(waiting: list[Formula], literals: dict[Literal, None]) -> Iterator[list[Literal]]:
    """The literals of each way to make all of these hold. Those that contradict each other at sight are left out."""
    waiting = list(waiting)
    choices: list[Some] = []
    literals = dict(literals)
    while waiting:
        formula = waiting.pop()
        if isinstance(formula, All):
            waiting.extend(formula.parts)
        elif isinstance(formula, Some):
            choices.append(formula)
        elif _opposite(formula) in literals:
            return
        else:
            literals[formula] = None
    if not choices:
        yield list(literals)
        return
    choices.sort(key=lambda each: len(each.parts), reverse=True)
    *others, chosen = choices
    for part in chosen.parts:
        yield from _cases([*others, part], literals)


def _opposite(literal: Literal) -> Literal | None:
    match literal:
        case Flag(key, holds, opaque):
            return Flag(key, not holds, opaque)
        case Is(name, text, holds):
            return Is(name, text, not holds)
        case _:
            return None


def _example(literals: Sequence[Literal], domains: Mapping[str, Domain]) -> Example | None:
    """None where these contradict each other."""
    found: Example = {each.key: each.holds for each in literals if isinstance(each, Flag) and not each.opaque}
    texts = _texts([each for each in literals if isinstance(each, Is)], domains)
    numbers = _numbers([each for each in literals if isinstance(each, AtMost)], domains)
    return None if texts is None or numbers is None else {**found, **texts, **numbers}


def _texts(literals: Sequence[Is], domains: Mapping[str, Domain]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for name in {each.name for each in literals}:
        wanted = {each.text for each in literals if each.name == name and each.holds}
        barred = {each.text for each in literals if each.name == name and not each.holds}
        choices = domains.get(name, Domain()).choices
        if choices is not None:
            possible = [each for each in choices if each not in barred and wanted <= {each}]
        else:
            # Any other text will do where none is asked for.
            possible = [each for each in (sorted(wanted) or ["…"]) if wanted <= {each} and each not in barred]
        if not possible:
            return None
        found[name] = possible[0]
    return found


_Bound = tuple[dict[str, int], int]
"""Names with factors, and what their sum is at most."""


def _numbers(literals: Sequence[AtMost], domains: Mapping[str, Domain]) -> dict[str, int] | None:
    """Whole numbers that keep all bounds. None where there are none."""
    bounds: list[_Bound] = [(dict(each.terms), each.most) for each in literals]
    names = sorted({name for terms, _ in bounds for name in terms})
    for name in names:
        domain = domains.get(name, Domain())
        if domain.least is not None:
            bounds.append(({name: -1}, -domain.least))
        if domain.most is not None:
            bounds.append(({name: 1}, domain.most))
    steps: list[tuple[str, list[_Bound]]] = []
    while names:
        # The one that makes the fewest new bounds.
        name = min(names, key=lambda each: (_new_bounds(each, bounds), each))
        names.remove(name)
        steps.append((name, [each for each in bounds if name in each[0]]))
        bounds = _without(name, bounds)
        if len(bounds) > _MOST_BOUNDS:
            raise TooManyCases
        if any(not terms and most < 0 for terms, most in bounds):
            return None
    values: dict[str, int] = {}
    for name, of_name in reversed(steps):
        values[name] = _chosen(name, of_name, values)
    return values


def _new_bounds(name: str, bounds: Sequence[_Bound]) -> int:
    above = sum(terms.get(name, 0) > 0 for terms, _ in bounds)
    below = sum(terms.get(name, 0) < 0 for terms, _ in bounds)
    return above * below - above - below


def _without(name: str, bounds: Sequence[_Bound]) -> list[_Bound]:
    """What the bounds say of the other names: each upper one of `name` together with each lower one."""
    left = [each for each in bounds if name not in each[0]]
    above = [each for each in bounds if each[0].get(name, 0) > 0]
    below = [each for each in bounds if each[0].get(name, 0) < 0]
    for one, most_one in above:
        for two, most_two in below:
            up, down = -two[name], one[name]
            terms = {each: up * one.get(each, 0) + down * two.get(each, 0) for each in {*one, *two}}
            terms = {each: factor for each, factor in terms.items() if factor}
            most = up * most_one + down * most_two
            divisor = math.gcd(*terms.values()) if terms else 1
            bound = ({each: factor // divisor for each, factor in terms.items()}, most // divisor)
            if bound not in left:
                left.append(bound)
    return left


def _chosen(name: str, bounds: Sequence[_Bound], values: Mapping[str, int]) -> int:
    """A value within the bounds that the values chosen so far leave it, the least where it has one.

    Whole numbers may be left none where fractions are; whoever shows an example tries it.
    """
    least: int | None = None
    most: int | None = None
    for terms, bound in bounds:
        rest = bound - sum(factor * values[each] for each, factor in terms.items() if each != name)
        factor = terms[name]
        if factor > 0:
            most = rest // factor if most is None else min(most, rest // factor)
        else:
            lowest = -(rest // -factor)
            least = lowest if least is None else max(least, lowest)
    if least is not None:
        return least
    return 0 if most is None else min(most, 0)
