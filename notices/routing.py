"""What goes over which channels, and when. Pure."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from ledger.notices import Due
from notices.file import Expiring, NoticesFile
from schemas.notices import Topic


def channels_for(
    file: NoticesFile, topic: Topic, *, tenant: str, approvers: str | None = None, tool: str | None = None
) -> list[str]:
    """The channels of every route that fits, each once, in the order of the file."""
    found: dict[str, None] = {}
    for route in file.routes:
        if (
            topic in route.tell
            and (route.approvers is None or approvers in route.approvers)
            and (route.tenants is None or tenant in route.tenants)
            and (route.tools is None or tool in route.tools)
        ):
            found.update(dict.fromkeys(route.over))
    return list(found)


def route(file: NoticesFile, due: Due) -> datetime | Sequence[str]:
    """When to look at it again, or which channels it goes to: none when nobody is to be told, or no longer."""
    channels = channels_for(file, due.topic, tenant=due.tenant, approvers=due.approvers, tool=due.tool)
    if due.topic in ("approval_requested", "approval_expiring") and due.approval_status != "open":
        return ()
    if due.topic == "approval_expiring" and due.requested_at is not None and due.expires_at is not None:
        at = warn_at(file.expiring, due.requested_at, due.expires_at)
        # A deadline that was moved meanwhile moves the warning.
        return at if channels and at > due.due_at else channels
    # That a channel takes nothing is not told over that channel.
    return [each for each in channels if each != due.alert_channel]


def warn_at(expiring: Expiring, requested_at: datetime, expires_at: datetime) -> datetime:
    """When it is told that a deadline is near."""
    left = (expires_at - requested_at) / expiring.part
    return expires_at - min(left, timedelta(seconds=expiring.at_most))


def digest_day(file: NoticesFile, now: datetime) -> date | None:
    """The day, where digests are sent by, whose digest is due by now: after the hour, and until the day ends."""
    if file.digest is None:
        return None
    local = now.astimezone(ZoneInfo(file.digest.zone))
    return local.date() if local.hour >= file.digest.hour else None


def digests_for(file: NoticesFile, groups: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """(tenant, group, channel) of the digests of these (tenant, group)."""
    return [
        (tenant, group, channel)
        for tenant, group in groups
        for channel in channels_for(file, "digest", tenant=tenant, approvers=group)
    ]
