"""How `counterseal tools inventory` prints the matrix of tools."""

from rich.table import Table
from rich.text import Text

from api.inventory import Line
from runtime.cli.output import console, plain, table


def show(lines: list[Line], policy: str) -> None:
    """A row for each tool, readable at 100 columns."""
    terminal = console()
    terminal.print(_table(lines, policy, min(terminal.width, 140)))
    for line in lines:
        if missing := line.entry.manifest.missing:
            name = plain(line.entry.manifest.name)
            terminal.print(Text(f"{name} is of critical risk: its manifest does not say {', '.join(missing)}"))


def _table(lines: list[Line], policy: str, width: int) -> Table:
    shown = table("Tool", "Seen by the model", "Reaches", "Undone", "Gate", "30 days")
    shown.width = width
    for line in lines:
        shown.add_row(*(Text(plain(cell)) for cell in _cells(line)))
        shown.add_section()
    shown.caption = (
        f"Gate: of {policy}. Tokens: about, a quarter of the characters. --json has everything, the rules by name too."
    )
    return shown


def _cells(line: Line) -> tuple[str, ...]:
    manifest, seen = line.entry.manifest, line.seen
    radius = manifest.blast_radius
    kind = "published" if manifest.published else "internal"
    touched = "not said" if radius is None else ", ".join(f"{what} {n}" for what, n in radius.model_dump().items() if n)
    undone = manifest.reversibility + (f", by {manifest.undo_tool}" if manifest.undo_tool else "")
    credentials = ", ".join(line.credentials)
    return (
        f"{manifest.name}\n{manifest.version}, {kind}\n{manifest.effective_risk} risk\n{line.code}",
        f"{seen.tokens} tokens\ntext {seen.description}\nschema {seen.schema}",
        "\n".join(
            (
                *(f"{system}{' (writes)' if writes else ''}" for system, writes in line.reaches),
                f"credential: {manifest.credential or 'none'}{f' {credentials}' if credentials else ''}",
            )
        ),
        f"{undone}\nat most {touched or 'nothing'}",
        gate_in_short(line),
        use_in_short(line),
    )


def gate_in_short(line: Line) -> str:
    """`refuse: 3 rules`, `hold: 11 rules (finance)`, `then notify`."""
    shown = [f"{verdict}: {count} {'rule' if count == 1 else 'rules'}{_of(who)}" for verdict, count, who in line.before]
    last = line.gate[-1]
    return "\n".join((*shown, f"{'then' if shown else 'always'} {last.verdict}{_of(last.who)}"))


def _of(who: str) -> str:
    return f" ({who})" if who else ""


def use_in_short(line: Line) -> str:
    """How often it was called and held, and how many of what people decided they approved."""
    if line.use is None:
        return "no ledger"
    rate = "" if line.rate is None else f"\n{line.rate.percent:.0f} % of {line.rate.decided} approved"
    return f"{line.use.calls} calls\n{line.use.held} held\n{line.use.refused} refused{rate}"
