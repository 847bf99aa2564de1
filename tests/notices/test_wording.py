"""What is said: plain words, ids, amounts and times; nothing that hides, breaks out or belongs to a customer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from ledger.notices import AlertAbout, Digest, Due
from notices.file import NoticesFile
from notices.rendering import as_html, as_text
from notices.routing import digest_day, route, warn_at
from notices.wording import Matter, instant, line, message
from schemas.money import Money

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 30, 15, 0, tzinfo=UTC)
APPROVAL = Matter(
    notice_id="ntc_" + "0" * 32,
    topic="approval_requested",
    tenant="acme",
    at=NOW,
    request_id="act_" + "1" * 32,
    approval_id="apr_" + "2" * 32,
    title="Issue a refund",
    tool="issue_refund",
    approvers="finance",
    money=Money(amount=31240, currency="USD"),
    deadline=NOW + timedelta(hours=24),
)


def test_an_approval_in_words() -> None:
    said = message(APPROVAL, "https://approvals.example.com", BERLIN)
    assert said.headline == "Approval wanted: Issue a refund, 312.40 USD"
    assert said.link == f"https://approvals.example.com/approvals/{APPROVAL.approval_id}"
    assert dict(said.facts) == {
        "Action": "Issue a refund",
        "Amount": "312.40 USD",
        "Deadline": "1 Dec 2026, 16:00 CET (UTC+01:00)",
        "Who decides": "finance",
        "Request": APPROVAL.request_id,
    }
    assert said.data == {
        "type": "approval.requested",
        "tenant": "acme",
        "request_id": APPROVAL.request_id,
        "approval_id": APPROVAL.approval_id,
        "tool": "issue_refund",
        "approvers": "finance",
        "amount": 31240,
        "currency": "USD",
        "expires_at": "2026-12-01T15:00:00Z",
    }


def test_times_are_absolute_in_their_zone_summer_and_winter() -> None:
    assert instant(datetime(2026, 7, 1, 22, 30, tzinfo=UTC), BERLIN) == "2 Jul 2026, 00:30 CEST (UTC+02:00)"
    assert instant(NOW, ZoneInfo("UTC")) == "30 Nov 2026, 15:00 UTC"
    assert instant(NOW, ZoneInfo("Asia/Kolkata")) == "30 Nov 2026, 20:30 IST (UTC+05:30)"


def test_a_digest_and_an_alert_in_words() -> None:
    digest = Digest(3, NOW - timedelta(hours=5), NOW + timedelta(hours=2), expired=1, approved=3, denied=1)
    said = message(replace(APPROVAL, topic="digest", approval_id=None, digest=digest), "https://a.example", BERLIN)
    assert (said.headline, said.link) == ("Digest of finance: 3 waiting", "https://a.example/")
    facts = dict(said.facts)
    assert facts["Approved, last 24 hours"] == "3 of 4 (75 %)"
    assert (facts["Oldest since"], facts["Expired, last 24 hours"]) == ("30 Nov 2026, 11:00 CET (UTC+01:00)", "1")
    none = Digest(0, None, None, expired=0, approved=0, denied=0)
    said = message(replace(APPROVAL, topic="digest", approval_id=None, digest=none), "https://a.example", BERLIN)
    assert dict(said.facts)["Approved, last 24 hours"] == "none decided"
    alert = AlertAbout("effect_reversed", None, APPROVAL.request_id)
    said = message(replace(APPROVAL, topic="alert", approval_id=None, alert=alert), "https://a.example", BERLIN)
    assert (said.headline, said.link) == ("Alert: Something done was undone later", "https://a.example/operations")


@given(st.text(max_size=400))
def test_a_title_cannot_break_out(title: str) -> None:
    said = message(replace(APPROVAL, title=title), "https://a.example", BERLIN)
    for text in (said.headline, *(value for _, value in said.facts)):
        assert text.isprintable()
        assert len(text) <= 120
    html = as_html(said)
    assert html.count("<td>") == len(said.facts)
    assert html.count("<a ") == 1
    assert as_text(said).splitlines()[0] == said.headline


def test_a_line_is_one() -> None:
    assert line("a\r\nBcc: b\u202e\u200bc\x00 d") == "a Bcc: b c d"
    assert line("x" * 200) == "x" * 119 + "…"


def due(**changes: object) -> Due:
    given = Due("ntc_1", "acme", "approval_requested", "issue_refund", "finance", NOW, "open", NOW, NOW, None)
    return replace(given, **changes)  # pyright: ignore[reportArgumentType]


FILE = NoticesFile.model_validate(
    {
        "digest": {"hour": 9, "zone": "America/New_York"},
        "channels": {
            name: {"kind": "webhook", "url": f"https://{name}.example.com", "secret": "vault"}
            for name in ("finance", "operators", "everyone")
        },
        "routes": (
            {"tell": ["approval_requested", "approval_expiring"], "approvers": ["finance"], "over": ("finance",)},
            {"tell": ["alert", "notice"], "tenants": ["acme"], "over": ("operators", "everyone")},
            {"tell": ["alert"], "over": ("operators",)},
            {"tell": ["notice"], "tools": ["cancel_order"], "over": ("everyone",)},
        ),
    },
    strict=False,
)


def test_every_route_that_fits_counts_once() -> None:
    assert route(FILE, due()) == ["finance"]
    assert route(FILE, due(approvers="legal")) == []
    assert route(FILE, due(topic="alert")) == ["operators", "everyone"]
    assert route(FILE, due(topic="alert", tenant="globex")) == ["operators"]
    assert route(FILE, due(topic="notice", tenant="globex")) == []
    assert route(FILE, due(topic="notice", tenant="globex", tool="cancel_order")) == ["everyone"]


def test_what_is_decided_is_not_asked_for_any_more() -> None:
    for status in ("granted", "denied", "expired", "withdrawn", "voided"):
        assert route(FILE, due(approval_status=status)) == ()
        assert route(FILE, due(topic="approval_expiring", approval_status=status)) == ()


def test_a_channel_is_not_told_that_it_takes_nothing() -> None:
    assert route(FILE, due(topic="alert", alert_channel="operators")) == ["everyone"]


def test_a_warning_comes_when_a_quarter_is_left_but_at_most_four_hours_before() -> None:
    day = timedelta(hours=24)
    assert warn_at(FILE.expiring, NOW, NOW + timedelta(hours=1)) == NOW + timedelta(minutes=45)
    assert warn_at(FILE.expiring, NOW, NOW + day) == NOW + timedelta(hours=20)
    waiting = due(topic="approval_expiring", expires_at=NOW + day)
    assert route(FILE, waiting) == NOW + timedelta(hours=20)
    assert route(FILE, replace(waiting, due_at=NOW + timedelta(hours=20))) == ["finance"]
    moved = replace(waiting, due_at=NOW + timedelta(hours=20), expires_at=NOW + 2 * day)
    assert route(FILE, moved) == NOW + timedelta(hours=44), "a deadline that moved moves the warning"
    assert route(FILE, replace(waiting, approvers="legal")) == [], "nobody is to be told: it is not kept until then"


def test_a_digest_is_of_the_day_where_it_is_read() -> None:
    assert digest_day(FILE, datetime(2026, 11, 30, 13, 59, tzinfo=UTC)) is None
    assert digest_day(FILE, datetime(2026, 11, 30, 14, 0, tzinfo=UTC)) == datetime(2026, 11, 30).date()  # noqa: DTZ001
    assert digest_day(FILE, datetime(2026, 12, 1, 4, 59, tzinfo=UTC)) == datetime(2026, 11, 30).date()  # noqa: DTZ001
    assert digest_day(FILE, datetime(2026, 12, 1, 5, 0, tzinfo=UTC)) is None
    assert digest_day(FILE.model_copy(update={"digest": None}), NOW) is None
