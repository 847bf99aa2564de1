"""How gates do: whether rules ask about the right things, whether people keep up, and whether they can have read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import Request, Response

from api.context import Context, Services
from api.pages.charts import Row, Scale, Series, Stacked, scale, stacked
from api.pages.rendering import OPERATOR, render
from api.pages.routing import READS, PageError, page_router
from api.pages.views import tool_title
from api.sessions import SignedIn
from ledger.gates import Gate, GateReport, Outcomes
from ledger.measures import CONFIDENCE, ENOUGH, NEARLY_ALWAYS, OFTEN_NOT, WORDS_PER_MINUTE, Band, Rate, rounded
from ledger.periods import Period, period
from ledger.principals import Person

router = page_router()

_SAID = (Series("held", "held for a person"), Series("passed", "let through"), Series("refused", "refused"))
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """What is said of a gate at one look: tone, symbol and words."""

    tone: str
    symbol: str
    words: str


_MARKS: dict[Band, Mark] = {
    "asks_for_nothing": Mark("warn", "▲", "nearly always approved"),
    "healthy": Mark("good", "✓", "healthy"),
    "often_refused": Mark("warn", "▼", "often refused"),
}
_TOO_FEW = Mark("quiet", "…", "too few decisions")


@dataclass(frozen=True, slots=True)
class Share:
    """An approve rate as it is drawn and said, with the ends of its interval rounded outwards."""

    rate: Rate
    scale: Scale
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Line:
    """One gate, or one person, with their rate where there is one."""

    name: str
    outcomes: Outcomes
    share: Share | None
    mark: Mark


@dataclass(frozen=True, slots=True)
class ToolGates:
    """The rules of one tool; `together` where there is more than one."""

    title: str
    together: Line | None
    rules: tuple[Line, ...]


@router.api_route("/stats", methods=READS)
async def stats(
    request: Request,
    services: Services,
    person: SignedIn,
    since: str | None = None,
    until: str | None = None,
    tool: str | None = None,
) -> Response:
    manifests = [entry.manifest for entry in services.catalog.all()]
    tools = {each.name: each.title for each in manifests if each.writes}
    chosen, asked = tool if tool in tools else None, _period(since, until)
    report = await services.ledger.of(person.tenant).gates.report(
        person.tenant,
        asked,
        tool=chosen,
        reads=[each.name for each in manifests if not each.writes],
        groups=_groups(person),
    )
    return render(
        request,
        "stats.html",
        person=person,
        report=report,
        gates=gates_by_tool(services, report.gates),
        people=[_line(each.person, each.outcomes) for each in report.approvers],
        chart=chart(report),
        share=_share(report.total.rate),
        tools=tools,
        chosen=chosen,
        since=asked.since.date().isoformat(),
        until=(asked.until - timedelta(microseconds=1)).date().isoformat(),
        kept=urlencode({name: text for name, text in (("since", since), ("until", until)) if text}),
        enough=ENOUGH,
        nearly_always=NEARLY_ALWAYS,
        often_not=OFTEN_NOT,
        confidence=CONFIDENCE,
        words_per_minute=WORDS_PER_MINUTE,
    )


def _period(since: str | None, until: str | None) -> Period:
    try:
        return period(since, until, datetime.now(UTC))
    except ValueError as problem:
        sentence = str(problem)
        raise PageError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "That is no period", f"{sentence[0].upper()}{sentence[1:]}."
        ) from None


def _groups(person: Person) -> list[str] | None:
    """Whose decisions somebody sees by name: an operator everyone's, others those of their own approver groups."""
    return None if OPERATOR in person.roles else sorted(person.roles)


def gates_by_tool(services: Context, gates: Sequence[Gate]) -> list[ToolGates]:
    """Every tool with its rules, what asked most first."""
    found: list[ToolGates] = []
    most_first = sorted(gates, key=lambda each: -each.outcomes.asked)
    for whole in (each for each in most_first if each.rule is None):
        own = (each for each in most_first if each.tool == whole.tool)
        rules = [_line(each.rule, each.outcomes) for each in own if each.rule is not None]
        together = _line("All its rules together", whole.outcomes) if len(rules) > 1 else None
        found.append(ToolGates(tool_title(services, whole.tool), together, tuple(rules)))
    return found


def _line(name: str, outcomes: Outcomes) -> Line:
    band = outcomes.finding.band
    return Line(name, outcomes, _share(outcomes.rate), _TOO_FEW if band is None else _MARKS[band])


def _share(rate: Rate | None) -> Share | None:
    if rate is None:
        return None
    return Share(rate, scale(rate.percent, rate.interval, (OFTEN_NOT, NEARLY_ALWAYS)), *rounded(rate.interval))


def chart(report: GateReport) -> Stacked:
    """How much the policy asked of people, over the period."""
    days = report.period.step // _DAY
    wide = "a day" if days == 1 else f"{days} days"
    label = f"Writes by what the policy said, each column {wide}: {report.held} of {report.decided} were held."
    rows = [
        Row(each.start.strftime("%d %b"), each.start.strftime("%a %d %b %Y"), (each.held, each.passed, each.refused))
        for each in report.parts
    ]
    return stacked(label, "Day (UTC)" if days == 1 else f"{days} days from (UTC)", _SAID, rows)
