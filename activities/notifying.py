"""Telling people: one notice over one channel, at least once, and giving up on it."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from pydantic import JsonValue
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.beating import beating
from activities.services import Services, benign
from ledger.calls import UnknownCall
from ledger.data_keys import KeyDestroyed
from ledger.notices import Notice
from notices.channel import NotDeliveredError
from notices.wording import Matter, message
from schemas.money import Money
from schemas.notices import NoticeRef, Topic

# To ask for what is decided by now, or to warn of what has passed, is of no use to anyone.
_WHILE_OPEN: frozenset[Topic] = frozenset({"approval_requested", "approval_expiring"})


class Notifying:
    """Sends what the outbox holds. Its words are made of the ledger at that moment; the outbox names ids alone."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name="send_notice")
    async def send(self, request: NoticeRef) -> None:
        """Send it, unless it was sent, and record that. A worker lost in between sends it again, under the same id.

        Raises ApplicationErrors, which are not retryable where another attempt would come to the same.
        """
        notice = await self._services.ledger.notices.read(request.notice_id)
        if notice is None or notice.state != "sending":
            return
        async with beating():
            try:
                delivered = await self._send(notice)
            except NotDeliveredError as failure:
                await self._services.ledger.notices.failed(notice.notice_id, failure.problem)
                raise _failed(failure) from None
        await self._services.ledger.notices.close(notice.notice_id, "delivered" if delivered else "moot")

    @activity.defn(name="give_up_notice")
    async def give_up(self, request: NoticeRef) -> None:
        """It could not be told for as long as is tried: operators are alerted."""
        await self._services.ledger.notices.give_up(request.notice_id)

    async def _send(self, notice: Notice) -> bool:
        telling = self._services.telling
        channel = None if telling is None else telling.channels.get(notice.channel)
        if telling is None or channel is None:
            raise NotDeliveredError("no_channel", final=True)
        matter = await self._matter(notice)
        if matter is None:
            return False
        await channel.send(message(matter, telling.public_url, telling.zone))
        return True

    async def _matter(self, notice: Notice) -> Matter | None:
        """What it is about; None when it is no longer worth telling, or was erased."""
        own = self._services.ledger.of(notice.tenant)
        entry = self._services.catalog.get(notice.tool) if notice.tool else None
        title = entry.manifest.title if entry else None
        money: Money | None = None
        deadline: datetime | None = None
        if notice.approval_id is not None:
            try:
                approval = await own.approvals.get(notice.tenant, notice.approval_id)
            except KeyDestroyed:
                return None
            if approval is None or (notice.topic in _WHILE_OPEN and approval.status != "open"):
                return None
            money, deadline = _money(approval.arguments), approval.expires_at
        elif notice.topic == "notice" and notice.request_id is not None:
            with suppress(KeyDestroyed, UnknownCall):
                money = _money((await own.calls.read(notice.request_id)).details.call.arguments)
        alert = None if notice.alert_id is None else await own.notices.alert(notice.tenant, notice.alert_id)
        digest = None
        if notice.topic == "digest" and notice.approvers is not None:
            digest = await own.notices.digest(notice.tenant, notice.approvers, notice.at)
        return Matter(
            notice_id=notice.notice_id,
            topic=notice.topic,
            tenant=notice.tenant,
            at=notice.at,
            request_id=notice.request_id,
            approval_id=notice.approval_id,
            title=title,
            tool=notice.tool,
            approvers=notice.approvers,
            money=money,
            deadline=deadline,
            alert=alert,
            digest=digest,
        )


def _money(arguments: Mapping[str, JsonValue]) -> Money | None:
    """What the call is about, where its tool's arguments say an amount."""
    amount, currency = arguments.get("amount_cents"), arguments.get("currency")
    if not isinstance(amount, int) or not isinstance(currency, str):
        return None
    try:
        return Money(amount=amount, currency=currency)
    except ValueError:
        return None


def _failed(failure: NotDeliveredError) -> ApplicationError:
    if failure.final:
        return benign(f"not delivered: {failure.problem}", "NotDelivered")
    after = None if failure.after_seconds is None else timedelta(seconds=max(1, min(failure.after_seconds, 3600)))
    return ApplicationError(
        f"not delivered: {failure.problem}",
        type="NotDelivered",
        next_retry_delay=after,
        category=ApplicationErrorCategory.BENIGN,
    )
