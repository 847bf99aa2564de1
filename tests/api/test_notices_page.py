"""What people were not told is on the page of operations, and can be sent again from there."""

from ledger.notices import Due
from tests.api.parked import TENANT, Office
from tests.api.test_pages import sign_in

PAGE = "/operations"


async def lose(desk: Office, tenant: str = TENANT) -> tuple[str, str]:
    """(one that was given up, one that is being tried)"""
    await desk.park()
    await desk.ledger.system.execute("UPDATE notices SET tenant = $1 WHERE state = 'due'", tenant)

    def route(due: Due) -> list[str]:
        return ["finance-mail"] if due.topic == "approval_requested" else ["<b>chat</b>"]

    await desk.ledger.notices.route(route)
    found = await desk.ledger.notices.recent(tenant=tenant, state="sending", limit=10)
    by_topic = {each.topic: each.notice_id for each in found}
    for notice_id in by_topic.values():
        await desk.ledger.notices.failed(notice_id, "timeout")
    await desk.ledger.notices.give_up(by_topic["approval_requested"])
    return by_topic["approval_requested"], by_topic["approval_expiring"]


async def test_it_is_shown_why_and_sent_again(desk: Office) -> None:
    given_up, _ = await lose(desk)
    olga = await sign_in(desk, "olga")
    html = (await olga.get(PAGE)).text
    assert "An approval is wanted: Issue a refund" in html
    assert "Over <code>finance-mail</code>: it took too long." in html
    assert "&lt;b&gt;chat&lt;/b&gt;" in html
    assert "<b>chat</b>" not in html
    assert html.count("Try again") == 2, "a button and its label: what is being tried needs none"
    assert "the channel finance-mail" in html, "and operators are alerted"
    csrf = html.partition('name="csrf" value="')[2].partition('"')[0]
    again = await olga.post(f"{PAGE}/notices", data={"csrf": csrf, "again": given_up})
    assert (again.status_code, again.headers["location"]) == (303, "/operations#notices")
    assert given_up in await desk.ledger.notices.unstarted(0)
    html = (await olga.get(PAGE)).text
    assert "Try again" not in html
    assert html.count("Being tried") == 2


async def test_only_operators_of_the_tenant_and_their_own_page_send_again(desk: Office) -> None:
    given_up, _ = await lose(desk, "globex")
    olga, ana = await sign_in(desk, "olga"), await sign_in(desk, "ana")
    html = (await olga.get(PAGE)).text
    assert "finance-mail" not in html
    csrf = html.partition('name="csrf" value="')[2].partition('"')[0]
    for fields, status in (
        ({"csrf": csrf, "again": given_up}, 303),
        ({"csrf": "x", "again": given_up}, 403),
        ({"csrf": csrf, "again": "ntc_1' OR true"}, 422),
        ({"csrf": csrf}, 422),
    ):
        assert (await olga.post(f"{PAGE}/notices", data=fields)).status_code == status
    inbox = (await ana.get("/")).text
    csrf = inbox.partition('name="csrf" value="')[2].partition('"')[0]
    assert (await ana.post(f"{PAGE}/notices", data={"csrf": csrf, "again": given_up})).status_code == 403
    assert (await olga.get(f"{PAGE}/notices")).status_code == 405
    lost = await desk.ledger.notices.read(given_up)
    assert lost is not None
    assert lost.state == "undelivered", "nobody had it sent again"


async def test_where_all_was_told_it_says_so(desk: Office) -> None:
    html = (await (await sign_in(desk, "olga")).get(PAGE)).text
    assert "Nothing that people were to be told is held up." in html
