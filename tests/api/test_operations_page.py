"""What operators see of limits, the vault, egress and switches; every number is the tenant's own."""

import re
from html import unescape

from api.pages.limits import amount
from ledger.streams import denials_of
from schemas.events import EgressDenied
from tests.api.parked import TENANT, Office, confirm, lose_answer
from tests.api.test_pages import HOSTILE, sign_in
from tests.api.test_switches_page import off_already, text_of

PAGE = "/operations"


async def section(desk: Office, name: str) -> str:
    """One section of the page, as olga sees it."""
    response = await (await sign_in(desk, "olga")).get(PAGE)
    assert response.status_code == 200
    found = re.search(rf'<section class="card" aria-labelledby="{name}">.*?</section>', response.text, re.DOTALL)
    assert found is not None
    return found[0]


async def take(
    desk: Office, subject: str, cents: int, *, tool: str = "issue_refund", minutes: int = 5, state: str = "spent"
) -> None:
    for tenant in (TENANT, "other"):
        await desk.ledger.system.execute(
            "INSERT INTO uses SELECT gen_random_uuid()::text, $1, $2, $3, $4, now() - make_interval(mins => $5),"
            " now(), $6",
            tenant,
            tool,
            subject,
            cents,
            minutes,
            state,
        )


def of_refunds(html: str) -> str:
    """What the section says of that tool."""
    return html.partition("<h3>Issue a refund</h3>")[2].partition("<h3>")[0]


def row(html: str, name: str) -> str:
    """The text of a limit's row."""
    rows = [text_of(each.partition("</tr>")[0]) for each in html.split("<tr>")]
    (found,) = [each for each in rows if each.startswith(name)]
    return found


async def test_limits_are_shown_with_what_is_used_of_them(desk: Office) -> None:
    for _ in range(85):
        await take(desk, "tool", 1)
    await take(desk, "tool", 1, minutes=90)
    await take(desk, "tool", 1, state="released")
    await take(desk, "tenant", 6_000_000, tool="*")
    await desk.park()
    html = await section(desk, "limits")
    refunds = of_refunds(html)
    assert row(refunds, "Refunds per hour").endswith("all agents together, in 1 h 100 85 (85 %) ⚠ nearly used up")
    assert row(refunds, "Refunds per day").endswith("all agents together, in 1 day 1,000 86 (8 %)")
    assert row(refunds, "Tenant cents 1h").endswith("in 1 h 50,000.00 60,000.00 (100 %) ⚠ used up")
    assert row(refunds, "Order cents 24h").endswith("each order, over all tools that count so, in 1 day 2,000.00 –")
    assert row(refunds, "The breaker").endswith(
        "turns off: Tools that move money all agents together, in 1 h 200 85 (42 %)"
    )
    waiting = row(html, "Waiting for a person all agents")
    assert waiting.endswith("all agents and tools together, at once 500 1 (0 %)")
    assert (await desk.app.state.context.policies.now()).version in html


async def test_the_breaker_counts_from_when_it_last_tripped(desk: Office) -> None:
    await take(desk, "tool", 1, minutes=30)
    await take(desk, "breaker:class:money_movement", 0, minutes=20)
    await take(desk, "tool", 1, minutes=10)
    refunds = of_refunds(await section(desk, "limits"))
    assert row(refunds, "The breaker").endswith("200 1 (0 %)")
    assert row(refunds, "Refunds per hour").endswith("100 2 (2 %)")


async def test_refunds_are_drawn_by_the_hour(desk: Office) -> None:
    done, unknown = await desk.park(), await desk.park()
    for approval in (done, unknown):
        await lose_answer(desk.ledger, approval.request_id)
    await confirm(desk.ledger, done.request_id)
    denied = await desk.park()
    await desk.decide(denied, "deny", reason="No.")
    await desk.park(tenant="other")
    old = await desk.park()
    await desk.ledger.system.execute(
        "UPDATE calls SET created_at = now() - interval '30 hours' WHERE request_id = $1", old.request_id
    )
    html = of_refunds(await section(desk, "limits"))
    assert "Asked for by the hour (UTC), last 24 hours: 3, at most 3 in an hour." in text_of(html)
    assert "Issue a refund, by the hour: 3 asked for in 24 hours" in html
    numbers = re.findall(r'<th scope="row">\d\d \w{3} \d\d:00</th>((?:<td class="number">\d+</td>)+)', html)
    assert len(numbers) == 24
    assert re.findall(r"\d+", numbers[-1]) == ["1", "1", "1"] or re.findall(r"\d+", numbers[-2]) == ["1", "1", "1"]
    assert "style=" not in html


def test_amounts_have_two_decimals() -> None:
    assert [amount(each) for each in (0, 5, 123_456, 20_000_000)] == ["0.00", "0.05", "1,234.56", "200,000.00"]


async def test_the_vault_shows_what_it_holds_and_no_secret(desk: Office) -> None:
    vault = desk.ledger.vault
    everyones = await vault.put("stripe", "sk_example_secret", by="root")
    own = await vault.put("store", "another_secret", by="root", tenant=TENANT, tool="cancel_order")
    others = await vault.put("store", "a_third_secret", by="root", tenant="other")
    retired = await vault.put("paypal", "a_fourth_secret", by="root")
    await vault.retire(retired)
    html = await section(desk, "vault")
    said = text_of(html)
    assert "✓ Open" in said
    assert f"{everyones} stripe everyone any" in said
    assert f"{own} store us cancel_order" in said
    for hidden_away in (others, retired, "secret", "root"):
        assert hidden_away not in html
    await off_already(desk, "vault")
    said = text_of(await section(desk, "vault"))
    assert "Locked" in said
    assert "No credential is given out" in said


async def test_what_the_egress_guard_refused_is_shown(desk: Office) -> None:
    # The processes that refuse and the page mean the same stream.
    for tenant, host in ((TENANT, "<b>evil.example"), ("other", "elsewhere.example")):
        event = EgressDenied(system="payments", host=host, because="address_not_allowed")
        await desk.ledger.streams.append(tenant, denials_of(tenant), event)
    html = await section(desk, "egress")
    assert "under 1 min ago payments <b>evil.example the name leads to an address that this system may not have" in (
        text_of(html)
    )
    assert "<b>" not in html
    assert "elsewhere.example" not in html


async def test_switches_that_are_off_are_said_at_the_top(desk: Office) -> None:
    assert "Everything is on." in await section(desk, "switches")
    await off_already(desk, by=HOSTILE)
    await off_already(desk, "agent:theirs", tenant="other")
    html = (await (await sign_in(desk, "olga")).get(PAGE)).text
    assert "1 switch is off: Issue a refund." in unescape(text_of(html))
    assert "theirs" not in html
    assert "<img src=x" not in html
