"""The refusal where a record is not there, or is another customer's: which of both cannot be told from it."""

from collections.abc import Iterable

from schemas.codes import Code
from schemas.replies import Explanation
from tools.protocol import Refusal


def no_such(what: str, names: Iterable[str]) -> Refusal:
    """`what` is our word for the record, `names` are those in the request that picked it."""
    arguments = tuple(dict.fromkeys(name.split(".")[1] for name in names if name.startswith("args.")))
    if not arguments:
        because = f"this customer has no {what.replace('_', ' ')}"
        return Refusal(code=Code.INVALID_STATE, explanation=Explanation(values={"because": because}))
    problem = f"there is no such {what.replace('_', ' ')} for this customer; check {' and '.join(arguments)}"
    explanation = Explanation(values={"problem": problem}, invalid_fields=arguments)
    return Refusal(code=Code.INVALID_INPUT, explanation=explanation)
