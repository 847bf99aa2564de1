"""Mail by SMTP (RFC 5321), over TLS."""

import asyncio
import ssl
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

import aiosmtplib

from gateways.connecting import Resolve, resolve
from notices.channel import Message, NotDeliveredError, Secrets
from notices.dialing import dial
from notices.file import EmailChannel
from notices.rendering import as_html, as_text

DEADLINE_SECONDS = 30.0


class Mail:
    """A `Channel`. `Message-ID` holds the notice's id, the same at every attempt."""

    def __init__(
        self,
        name: str,
        settings: EmailChannel,
        secrets: Secrets,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        resolve: Resolve = resolve,
    ) -> None:
        """Raises ValueError when the file of the authorities cannot be used."""
        self._name = name
        self._settings = settings
        self._secrets = secrets
        self._deadline_seconds = deadline_seconds
        self._resolve = resolve
        try:
            self._tls = ssl.create_default_context(cafile=settings.authorities)
        except OSError:
            raise ValueError(f"{name}: authorities: the file cannot be used") from None
        # The standard library lets the environment have every connection's keys written to a file.
        self._tls.keylog_filename = None  # pyright: ignore[reportAttributeAccessIssue]  # typeshed leaves None out

    async def send(self, message: Message) -> None:
        mail = compose(message, self._settings)
        password = None
        if self._settings.password is not None:
            password = await self._secrets.secret(self._name, message.tenant)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await self._deliver(mail, password)
        except TimeoutError:
            raise NotDeliveredError("timeout") from None
        except (aiosmtplib.SMTPException, OSError) as error:
            raise _not_delivered(error) from None

    async def _deliver(self, mail: EmailMessage, password: str | None) -> None:
        settings = self._settings
        connected = await dial(settings.host, settings.port, private=settings.private, resolve=self._resolve)
        relay = aiosmtplib.SMTP(
            hostname=settings.host,
            sock=connected,
            # Otherwise it asks the resolver for its own name, and waits for that.
            local_hostname=_domain(settings.sender),
            use_tls=settings.tls == "tls",
            start_tls=settings.tls == "starttls",
            tls_context=self._tls,
            timeout=self._deadline_seconds,
        )
        try:
            await relay.connect()
        except BaseException:
            connected.close()
            raise
        # From here on the connection is the relay's to close, which over TLS takes a few turns of the loop.
        try:
            if settings.username is not None and password is not None:
                await relay.login(settings.username, password)
            refused, _ = await relay.send_message(mail, sender=settings.sender, recipients=list(settings.to))
            if refused:
                # Those that were taken have it; sending it again would tell them twice.
                raise NotDeliveredError("refused", final=True)
            with suppress(aiosmtplib.SMTPException):
                await relay.quit()
        finally:
            relay.close()


def compose(message: Message, settings: EmailChannel) -> EmailMessage:
    """The mail. Header values are checked by the standard library: none of them can end its header."""
    mail = EmailMessage(policy=SMTP)
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Subject"] = message.headline
    mail["Date"] = format_datetime(message.at)
    mail["Message-ID"] = f"<{message.notice_id}@{_domain(settings.sender)}>"
    # So that nobody's absence is answered to it (RFC 3834).
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(as_text(message))
    mail.add_alternative(as_html(message), subtype="html")
    return mail


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def _not_delivered(error: Exception) -> NotDeliveredError:
    """Our word for it; what a relay says may hold anything, and goes nowhere."""
    match error:
        case aiosmtplib.SMTPAuthenticationError():
            return NotDeliveredError("sign_in_refused", final=error.code >= 500)
        case aiosmtplib.SMTPRecipientsRefused():
            return _answered(min(each.code for each in error.recipients))
        case aiosmtplib.SMTPTimeoutError():
            return NotDeliveredError("timeout")
        case aiosmtplib.SMTPServerDisconnected():
            return NotDeliveredError("no_answer")
        case aiosmtplib.SMTPResponseException():
            return _answered(error.code)
        case ssl.SSLError():
            return NotDeliveredError("tls_failed")
        case aiosmtplib.SMTPConnectError() if isinstance(error.__cause__, ssl.SSLError):
            return NotDeliveredError("tls_failed")
        case aiosmtplib.SMTPConnectError() | OSError():
            return NotDeliveredError("connect_failed")
        case _:
            # It does not offer what is asked of it: STARTTLS, or to sign in.
            return NotDeliveredError("tls_failed")


def _answered(code: int) -> NotDeliveredError:
    """A negative answer: from 500 on it is permanent (RFC 5321, section 4.2.1)."""
    return NotDeliveredError("refused", final=True) if code >= 500 else NotDeliveredError("try_later")
