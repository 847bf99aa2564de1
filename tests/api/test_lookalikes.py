"""Letters that pass for others are shown for what they are; a text in another script is left as it is."""

import httpx
import pytest

from api.pages.lookalikes import lookalikes
from api.pages.text import visible
from tests.api.parked import Office

LOUD = "\n" * 300 + "APPROVED BY FINANCE"
SCRIPTS = (
    "<script>alert(1)</script>",
    "javascript:alert(1)",
    '<svg onload="alert(1)"><a href="javascript:alert(1)">x</a></svg>',
    "{{7*7}}{% print 7*7 %}${7*7}<%= 7*7 %>",
)


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("p\u0430ypal", "\u0430"),
        ("\u0391pproved by finance", "\u0391"),
        ("a refund \u043ef money, \u0430 fair one", "\u043e\u0430"),
        ("the \u0441\u043e\u0440 said so", "\u0441\u043e\u0440"),
        ("\uff21\uff30\uff30\uff32\uff2f\uff36\uff25\uff24", "\uff21\uff30\uff30\uff32\uff2f\uff36\uff25\uff24"),
        ("\U0001d400PPROVED", "\U0001d400"),
        ("\u1d00\u1d18\u1d18\u0280oved", "\u1d00\u1d18\u1d18\u0280"),
        ("ord_\u06f8f2b91a04c7d", "\u06f8"),
        ("1\u0665 USD", "\u0665"),
        ("\u217dent", "\u217d"),
        ("g\u0251me", "\u0251"),
    ],
)
def test_what_passes_for_another_letter_is_found(text: str, marked: str) -> None:
    assert "".join(text[n] for n in sorted(lookalikes(text))) == marked
    shown = visible(text)
    for character in marked:
        assert f"‹U+{ord(character):04X}›" in shown
        assert character not in shown


@pytest.mark.parametrize(
    "text",
    [
        "APPROVED by finance, 31240",
        "Müller's café, nº 3, ½ x², 25 µm, 5 €, №5, naïve Łódź Ørsted straße",
        "Пожалуйста, верните PayPal деньги, а не кредит",
        "Ελλάδα",
        "東京タワーへiPhoneを返品",
        "٣ طلبات",
        "שלום",
    ],
)
def test_what_passes_for_nothing_is_left_alone(text: str) -> None:
    assert lookalikes(text) == frozenset()


async def test_what_the_agent_shouts_stays_its_own_words(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park(untrusted={"note": LOUD})
    page = (await ana.get(f"/approvals/{approval.approval_id}")).text
    before, _, after = page.partition("APPROVED BY FINANCE")
    place = before[before.rindex("<section") :]
    assert 'class="card untrusted"' in place
    assert "Written by the AI agent, not checked by anyone." in place
    assert "‹300 line breaks›" in place
    assert place.count("\n") < 20
    assert "APPROVED BY FINANCE" not in after
    sheet = (await ana.get("/static/counterseal.css")).text
    assert ".untrusted blockquote { max-height:" in sheet, "the decision stays within reach"


@pytest.mark.parametrize("text", SCRIPTS)
async def test_what_would_run_is_text_in_every_field(desk: Office, ana: httpx.AsyncClient, text: str) -> None:
    fields = ("title", "because", "rule", "policy_version", "tool_version", "agent_id", "actor_id", "customer_id")
    approval = await desk.park(
        **dict.fromkeys(fields, text),
        rules=(text,),
        arguments={text: text, "order_id": text, "address": {"line1": text}},
        facts={text: text, "order": {"status": text, "placed_at": text, "currency": text}, "payment": {"last4": text}},
        untrusted={"note": text, text: text},
    )
    for path in ("/", f"/approvals/{approval.approval_id}"):
        page = (await ana.get(path)).text
        assert "alert(1)</script>" not in page
        assert "<svg onload" not in page
        assert 'href="javascript:' not in page
        assert ">49<" not in page
        assert "49${" not in page
