"""Each kind of channel against a receiver on a real socket: what arrives, and what is said when it is not taken."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import WebhookVerificationError

from gateways.client import new_client
from gateways.egress import Denial, Egress
from notices.channel import Channel, Message, NotDeliveredError
from notices.file import NoticesFile
from notices.mail import Mail
from notices.posting import Poster
from notices.registry import open_channels
from notices.webhook import SignedWebhook
from tests.gateways.test_connecting import certified
from tests.notices.receivers import SECRET, Receiver, receiving, relaying

MESSAGE = Message(
    notice_id="ntc_0123456789abcdef0123456789abcdef",
    topic="approval_requested",
    tenant="acme",
    at=datetime(2026, 11, 30, 15, 0, tzinfo=UTC),
    headline="Approval wanted: Issue a refund, 312.40 USD",
    sentence="It waits for a person.",
    facts=(("Amount", "312.40 USD"), ("Deadline", "30 Nov 2026, 16:00 CET (UTC+01:00)")),
    link="https://approvals.example.com/approvals/apr_0123456789abcdef0123456789abcdef",
    data={"type": "approval.requested", "request_id": "act_0123456789abcdef0123456789abcdef", "amount": 31240},
)


class Secrets:
    """Gives every channel the same."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def secret(self, channel: str, tenant: str) -> str:
        assert (channel, tenant) == ("there", "acme")
        return self._secret


@asynccontextmanager
async def channel(
    settings: dict[str, Any], secret: str = "", denied: list[Denial] | None = None
) -> AsyncGenerator[Channel]:
    content = NoticesFile.model_validate({"channels": {"there": settings}, "routes": ()})
    async with new_client() as client:
        told = (lambda denial: None) if denied is None else denied.append
        yield open_channels(content, client, Secrets(secret), told)["there"]


def webhook(url: str, **changes: Any) -> dict[str, Any]:
    return {"kind": "webhook", "url": url, "secret": "env:SECRET", "private": True, **changes}


def mail(port: int, **changes: Any) -> dict[str, Any]:
    settings = {"kind": "email", "host": "localhost", "port": port, "private": True, "from": "approvals@example.com"}
    return {**settings, "to": ("finance@example.com", "lead@example.com"), **changes}


async def refused(channel: Channel, message: Message = MESSAGE) -> tuple[str, bool]:
    with pytest.raises(NotDeliveredError) as failure:
        await channel.send(message)
    return failure.value.problem, failure.value.final


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as made:
        yield made


async def test_a_webhook_is_signed_and_has_the_same_id_at_every_attempt(receiver: Receiver) -> None:
    async with channel(webhook(f"{receiver.url}/hooks"), SECRET) as there:
        await there.send(MESSAGE)
        await there.send(MESSAGE)
    first, second = receiver.requests
    assert (first.path, first.notice_id, second.notice_id) == ("/hooks", MESSAGE.notice_id, MESSAGE.notice_id)
    assert first.verified() == {
        "type": "approval.requested",
        "timestamp": "2026-11-30T15:00:00Z",
        "data": {
            "notice_id": MESSAGE.notice_id,
            "headline": MESSAGE.headline,
            "link": MESSAGE.link,
            "request_id": "act_0123456789abcdef0123456789abcdef",
            "amount": 31240,
        },
    }
    other = "whsec_" + base64.b64encode(b"another secret of the tests").decode()
    for forged in (replace(first, body=first.body.replace(b"31240", b"31241")), first):
        with pytest.raises(WebhookVerificationError):
            forged.verified(other if forged is first else SECRET)


@pytest.mark.parametrize(
    ("status", "problem", "final"),
    [
        (500, "try_later", False),
        (503, "try_later", False),
        (429, "try_later", False),
        (408, "try_later", False),
        (400, "refused", True),
        (404, "refused", True),
        (410, "refused", True),
        (302, "refused", True),
        (0, "no_answer", False),
    ],
)
async def test_what_an_http_answer_means(receiver: Receiver, status: int, problem: str, final: bool) -> None:
    receiver.statuses.append(status)
    receiver.headers = f"Location: {receiver.url}/elsewhere\r\n"
    async with channel(webhook(receiver.url), SECRET) as there:
        assert await refused(there) == (problem, final)
    assert len(receiver.requests) == 1, "never followed, never sent again by the channel itself"


async def test_a_receiver_says_when_to_try_again(receiver: Receiver) -> None:
    receiver.statuses.append(429)
    receiver.headers = "Retry-After: 17\r\n"
    async with channel(webhook(receiver.url), SECRET) as there:
        with pytest.raises(NotDeliveredError) as failure:
            await there.send(MESSAGE)
    assert failure.value.after_seconds == 17


async def test_a_receiver_that_never_answers_is_a_time_out(receiver: Receiver) -> None:
    receiver.hold = asyncio.Event()
    async with new_client() as client:
        content = NoticesFile.model_validate({"channels": {"there": webhook(receiver.url)}, "routes": ()})
        poster = Poster(client, Egress({"there": (receiver.url,)}, private=["there"]), deadline_seconds=0.3)
        settings = content.channels["there"]
        assert settings.kind == "webhook"
        assert await refused(SignedWebhook("there", settings, poster, Secrets(SECRET))) == ("timeout", False)
    receiver.hold.set()


async def test_nobody_there() -> None:
    async with receiving() as gone:
        url = gone.url
    async with channel(webhook(url), SECRET) as there:
        assert await refused(there) == ("connect_failed", False)


@pytest.mark.parametrize("secret", ["", "whsec_", "not base64 at all!", "x"])
async def test_a_secret_that_cannot_sign_is_said_and_nothing_is_sent(receiver: Receiver, secret: str) -> None:
    async with channel(webhook(receiver.url), secret) as there:
        assert await refused(there) == ("misconfigured", True)
    assert receiver.requests == []


async def test_http_goes_to_the_origins_of_the_file_alone(receiver: Receiver) -> None:
    denied: list[Denial] = []
    slack = {"kind": "slack", "url": "env:URL", "origin": "https://hooks.slack.com"}
    async with channel(slack, f"{receiver.url}/services/T1/B1/x", denied) as there:
        assert await refused(there) == ("egress_denied", True)
    port = receiver.url.rpartition(":")[2]
    async with channel(webhook(f"https://localhost:{port}", private=False), SECRET, denied) as there:
        assert await refused(there) == ("egress_denied", True)
    assert [each.because for each in denied] == ["origin_not_listed", "address_not_allowed"]
    assert receiver.requests == []
    for bad in ("", "no url", "ftp://example.com", "http://[::1"):
        async with channel(slack, bad) as there:
            assert (await refused(there))[1], "final"


async def test_slack_gets_text_and_blocks_in_which_nothing_is_markup(receiver: Receiver) -> None:
    hostile = replace(MESSAGE, headline="<!channel> & <https://evil.example|Open it>", facts=(("<b>", "&amp;"),))
    async with channel(
        {"kind": "slack", "url": "env:URL", "origin": receiver.url, "private": True}, f"{receiver.url}/services/T1/B1/x"
    ) as there:
        await there.send(hostile)
    (request,) = receiver.requests
    assert (request.path, request.notice_id) == ("/services/T1/B1/x", MESSAGE.notice_id)
    text = request.json["text"]
    assert text.splitlines()[0] == "&lt;!channel&gt; &amp; &lt;https://evil.example|Open it&gt;"
    assert text.splitlines()[2] == "&lt;b&gt;: &amp;amp;"
    assert [line for line in text.splitlines() if "<" in line] == [
        f"<{MESSAGE.link}|Open it> (opening decides nothing)"
    ]
    kinds = [block["type"] for block in request.json["blocks"]]
    assert kinds == ["header", "section", "section", "section", "context"]
    assert MESSAGE.notice_id in request.json["blocks"][-1]["elements"][0]["text"]


async def test_a_mail_has_text_and_html_and_the_same_id_at_every_attempt() -> None:
    async with relaying() as relay, channel(mail(relay.port, tls="none")) as there:
        await there.send(replace(MESSAGE, headline="Approval wanted: <script>alert(1)</script> ü"))
        await there.send(MESSAGE)
    first, second = relay.mails
    assert first.mail["Message-ID"] == second.mail["Message-ID"] == f"<{MESSAGE.notice_id}@example.com>"
    assert first.mail["Subject"] == "Approval wanted: <script>alert(1)</script> ü"
    assert (first.sender, first.recipients) == ("approvals@example.com", ["finance@example.com", "lead@example.com"])
    assert first.mail["Auto-Submitted"] == "auto-generated"
    text, html = first.part("plain"), first.part("html")
    assert f"\n{MESSAGE.link}\n" in text
    assert "Deadline: 30 Nov 2026, 16:00 CET (UTC+01:00)" in text
    assert "<script>alert(1)</script>" in text
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.count("href=") == 1
    assert f'href="{MESSAGE.link}"' in html


async def test_a_line_break_cannot_begin_another_header() -> None:
    hostile = replace(MESSAGE, headline="Refund\r\nBcc: everyone@example.com")
    async with relaying() as relay, channel(mail(relay.port, tls="none")) as there:
        with pytest.raises(ValueError, match="linefeed or carriage return"):
            await there.send(hostile)
    assert relay.mails == []


@pytest.fixture
def localhost(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """TLS for localhost, and the file of what vouches for it."""
    context, trusted = certified(tmp_path, "localhost")
    return context, str(trusted)


async def test_a_relay_is_signed_in_to_over_starttls(localhost: tuple[ssl.SSLContext, str]) -> None:
    context, trusted = localhost
    settings = {"authorities": trusted, "username": "counterseal", "password": "vault"}
    async with relaying(starttls=context, password=b"an example password") as relay:
        async with channel(mail(relay.port, **settings), "an example password") as there:
            await there.send(MESSAGE)
        assert len(relay.mails) == 1
        assert relay.signed_in == [b"counterseal"]
        async with channel(mail(relay.port, **settings), "a wrong password") as there:
            assert await refused(there) == ("sign_in_refused", True)
        assert len(relay.mails) == 1


async def test_a_relay_that_speaks_tls_from_the_start(localhost: tuple[ssl.SSLContext, str]) -> None:
    context, trusted = localhost
    async with relaying(tls=context) as relay, channel(mail(relay.port, tls="tls", authorities=trusted)) as there:
        await there.send(MESSAGE)
    assert len(relay.mails) == 1


@pytest.mark.parametrize("tls", ["tls", "starttls"])
async def test_a_certificate_that_nobody_vouches_for_gets_nothing(
    localhost: tuple[ssl.SSLContext, str], tls: str
) -> None:
    context, _ = localhost
    speaking = relaying(tls=context) if tls == "tls" else relaying(starttls=context)
    async with speaking as relay, channel(mail(relay.port, tls=tls)) as there:
        assert await refused(there) == ("tls_failed", False)
    assert relay.mails == []


async def test_a_relay_without_starttls_gets_nothing() -> None:
    async with relaying() as relay, channel(mail(relay.port)) as there:
        assert await refused(there) == ("tls_failed", False)
    assert relay.mails == []


@pytest.mark.parametrize(
    ("answer", "refuses", "problem", "final"),
    [
        ("451 later", {}, "try_later", False),
        ("554 no", {}, "refused", True),
        ("250 OK", {"finance@example.com": "550 unknown", "lead@example.com": "550 unknown"}, "refused", True),
        ("250 OK", {"finance@example.com": "450 busy", "lead@example.com": "550 unknown"}, "try_later", False),
        ("250 OK", {"lead@example.com": "550 unknown"}, "refused", True),
    ],
)
async def test_what_a_relays_answer_means(answer: str, refuses: dict[str, str], problem: str, final: bool) -> None:
    async with relaying() as relay, channel(mail(relay.port, tls="none")) as there:
        relay.answer, relay.refuses = answer, refuses
        assert await refused(there) == (problem, final)


async def test_a_relay_must_not_be_on_this_machine_unless_it_may(localhost: tuple[ssl.SSLContext, str]) -> None:
    async with relaying() as relay, channel(mail(relay.port, private=False)) as there:
        assert await refused(there) == ("egress_denied", True)
    assert relay.mails == []


async def test_a_relay_that_says_nothing_is_a_time_out() -> None:
    gone = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        content = NoticesFile.model_validate(
            {"channels": {"there": mail(server.sockets[0].getsockname()[1], tls="none")}, "routes": ()}
        )
        settings = content.channels["there"]
        assert settings.kind == "email"
        assert await refused(Mail("there", settings, Secrets(""), deadline_seconds=0.3)) == ("timeout", False)
        await gone.wait()


async def test_nobody_at_the_relay() -> None:
    async with relaying() as relay:
        port = relay.port
    async with channel(mail(port, tls="none")) as there:
        assert await refused(there) == ("connect_failed", False)
