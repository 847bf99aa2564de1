"""The page of tools: what operators see of each, and that nobody else does."""

from tests.api.parked import Office
from tests.api.test_pages import browser, sign_in
from tests.ledger.refunds import CATALOG


async def test_every_tool_with_its_reach_and_its_gate(desk: Office) -> None:
    await desk.park()
    html = " ".join((await (await sign_in(desk, "olga")).get("/tools")).text.split())
    for entry in CATALOG.all():
        assert f'<h2 id="{entry.manifest.name}">' in html
    refund = html.partition('<h2 id="issue_refund">')[2].partition("</section>")[0]
    assert "payments (reads and writes), orders (reads)" in refund
    assert "tools/issue_refund/tool.py:" in refund
    assert "1 calls: 0 ran, 1 held, 0 refused" in refund
    assert "2 of finance" in refund
    assert 'href="/tools"' in (await (await sign_in(desk, "olga")).get("/operations")).text


async def test_it_is_for_operators_alone(desk: Office) -> None:
    assert (await (await sign_in(desk, "ana")).get("/tools")).status_code == 403
    assert (await browser(desk).get("/tools")).status_code == 303
