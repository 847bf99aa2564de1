"""The demo's table: what was asked, what the policy decided, how it ended and why."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from runtime.demo.agent import Played

_STYLES = {"executed": "green", "pending_approval": "yellow", "refused": "red", "denied": "red", "failed": "bold red"}


def results(played: Sequence[Played]) -> Table:
    """The table so far; made for 100 columns, and readable in 80."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("Call", width=22, overflow="fold")
    table.add_column("Decision", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    table.add_column("Why", overflow="fold")
    for each in played:
        table.add_row(Text(each.doing), Text(each.verdict), _outcome(each), Text(why(each)))
    return table


def why(played: Played) -> str:
    """Why it ended so: the policy's sentence for what waits, else the service's own first sentence."""
    step = played.step
    said = _sentence(played.ended.message).replace(f" of order {played.subject}", "")
    if step.dry_run:
        return said.partition(" (")[0]
    if played.parked:
        return played.because.partition("; ")[0]
    if step.same_call:
        return f"the same call, nothing done twice; {said}"
    if step.looked_up and "effect.inspected" in played.events:
        return f"answer lost, looked up and not sent again; {said}"
    return f"{played.decided_by}; {said}" if played.decided_by else said


def _outcome(played: Played) -> Text:
    ended = played.ended
    text = Text(ended.status, _STYLES.get(ended.status, ""))
    if ended.code not in ("OK", ended.status.upper()):
        text.append(f"\n{ended.code}")
    return text


def _sentence(message: str) -> str:
    """The first sentence; the others tell an agent what to do. `Done: …` goes on in lower case."""
    first, _, _ = message.partition(". ")
    first = first.rstrip(".")
    return first[:1].lower() + first[1:]
