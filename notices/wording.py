"""Notices in words: the tool's own title, amounts, times and ids. Nothing of the agent's, of a customer's, or secret.
Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_datetime
from pydantic import JsonValue

from ledger.notices import AlertAbout, Digest
from notices.channel import Message
from schemas.effects import AlertKind
from schemas.money import Money
from schemas.notices import Topic

_LONGEST = 120
_SENTENCES: dict[Topic, str] = {
    "approval_requested": "It waits for a person. If nobody decides in time it expires, and nothing is done.",
    "approval_expiring": "It still waits for a person, and expires soon. Then nothing is done.",
    "approval_expired": "Nobody decided in time. Nothing was done, and the agent is told so.",
    "notice": "It ran without a person being asked, as the policy has it.",
}
_HEADLINES: dict[Topic, str] = {
    "approval_requested": "Approval wanted",
    "approval_expiring": "Expires soon",
    "approval_expired": "Expired",
    "notice": "Done",
}
_TYPES: dict[Topic, str] = {
    "approval_requested": "approval.requested",
    "approval_expiring": "approval.expiring",
    "approval_expired": "approval.expired",
    "alert": "alert.raised",
    "notice": "call.executed",
    "digest": "digest",
}
_ALERTS: dict[AlertKind, str] = {
    "needs_review": "An outcome could not be found out",
    "found_twice": "Something was done twice",
    "effect_reversed": "Something done was undone later",
    "effect_missing": "Something done can no longer be found",
    "effect_after_all": "Something settled as not done happened after all",
    "breaker_tripped": "The breaker turned a switch off",
    "agent_flood": "One agent has more waiting than people can read",
    "notice_undelivered": "People could not be told",
}


@dataclass(frozen=True, slots=True)
class Matter:
    """What a notice is about, from the ledger. `title` is the tool's own."""

    notice_id: str
    topic: Topic
    tenant: str
    at: datetime
    request_id: str | None = None
    approval_id: str | None = None
    title: str | None = None
    tool: str | None = None
    approvers: str | None = None
    money: Money | None = None
    deadline: datetime | None = None
    alert: AlertAbout | None = None
    digest: Digest | None = None


def message(matter: Matter, public_url: str, zone: ZoneInfo) -> Message:
    """What is said of it. `public_url` has no slash at its end; times are told in `zone`."""
    if matter.digest is not None:
        headline, sentence, facts = _digest(matter, matter.digest, zone)
    elif matter.alert is not None:
        headline, sentence, facts = _alert(matter, matter.alert)
    else:
        what = ", ".join([matter.title or matter.tool or "A call", *([str(matter.money)] if matter.money else [])])
        headline = f"{_HEADLINES[matter.topic]}: {what}"
        sentence, facts = _SENTENCES[matter.topic], _facts(matter, zone)
    return Message(
        notice_id=matter.notice_id,
        topic=matter.topic,
        tenant=matter.tenant,
        at=matter.at,
        headline=line(headline),
        sentence=line(sentence, 500),
        facts=tuple((name, line(value)) for name, value in facts),
        link=_link(matter, public_url),
        data=_data(matter),
    )


def trial(channel: str, notice_id: str, tenant: str, now: datetime) -> Message:
    """What is sent to try a channel out."""
    return Message(
        notice_id=notice_id,
        topic="notice",
        tenant=tenant,
        at=now,
        headline=line(f"Test of the channel {channel}"),
        sentence="Somebody tries whether notices arrive here. There is nothing to do.",
        data={"type": "test"},
    )


def line(text: str, longest: int = _LONGEST) -> str:
    """`text` as one line of printable characters: nothing in it ends a header, hides, or turns the direction around."""
    words = "".join(each if each.isprintable() else " " for each in text).split()
    joined = " ".join(words)
    return joined if len(joined) <= longest else joined[: longest - 1] + "…"


def instant(at: datetime, zone: ZoneInfo) -> str:
    """`30 Nov 2026, 16:00 CET (UTC+01:00)`; in UTC without its offset."""
    local = at.astimezone(zone)
    said = f"{format_datetime(local, 'd MMM y, HH:mm', locale='en_US')} {local.tzname()}"
    offset = local.strftime("%z")
    return said if local.tzname() == "UTC" else f"{said} (UTC{offset[:3]}:{offset[3:5]})"


def _facts(matter: Matter, zone: ZoneInfo) -> list[tuple[str, str]]:
    facts = [("Action", matter.title or matter.tool or "–")]
    if matter.money is not None:
        facts.append(("Amount", str(matter.money)))
    if matter.deadline is not None:
        facts.append(("Deadline", instant(matter.deadline, zone)))
    if matter.approvers is not None:
        facts.append(("Who decides", matter.approvers))
    if matter.topic == "notice":
        facts.append(("When", instant(matter.at, zone)))
    if matter.request_id is not None:
        facts.append(("Request", matter.request_id))
    return facts


def _alert(matter: Matter, alert: AlertAbout) -> tuple[str, str, list[tuple[str, str]]]:
    facts = [("Action", matter.title or matter.tool)] if matter.title or matter.tool else []
    if alert.channel is not None:
        facts.append(("Channel", alert.channel))
    if alert.request_id is not None:
        facts.append(("Request", alert.request_id))
    sentence = "An operator has to look at it. The page says what happened and what to do."
    return f"Alert: {_ALERTS[alert.kind]}", sentence, [(name, str(value)) for name, value in facts]


def _digest(matter: Matter, digest: Digest, zone: ZoneInfo) -> tuple[str, str, list[tuple[str, str]]]:
    facts = [("Waiting now", str(digest.waiting))]
    if digest.oldest is not None:
        facts.append(("Oldest since", instant(digest.oldest, zone)))
    if digest.next_deadline is not None:
        facts.append(("Next deadline", instant(digest.next_deadline, zone)))
    decided = digest.approved + digest.denied
    share = f"{digest.approved} of {decided} ({digest.approved * 100 // decided} %)" if decided else "none decided"
    facts += [("Approved, last 24 hours", share), ("Expired, last 24 hours", str(digest.expired))]
    sentence = "What waits for your decision, and what became of what did in the last 24 hours."
    return f"Digest of {matter.approvers}: {digest.waiting} waiting", sentence, facts


def _link(matter: Matter, public_url: str) -> str | None:
    if matter.approval_id is not None:
        return f"{public_url}/approvals/{matter.approval_id}"
    return {"digest": f"{public_url}/", "alert": f"{public_url}/operations"}.get(matter.topic)


def _data(matter: Matter) -> dict[str, JsonValue]:
    """For programs: ids, names, numbers and times."""
    data: dict[str, JsonValue] = {"type": _TYPES[matter.topic], "tenant": matter.tenant}
    for name in ("request_id", "approval_id", "tool", "approvers"):
        if (value := getattr(matter, name)) is not None:
            data[name] = value
    if matter.money is not None:
        data |= {"amount": matter.money.amount, "currency": matter.money.currency}
    if matter.deadline is not None:
        data["expires_at"] = _iso(matter.deadline)
    if matter.alert is not None:
        data |= {"alert": matter.alert.kind, "channel": matter.alert.channel}
    if (digest := matter.digest) is not None:
        data |= {name: getattr(digest, name) for name in ("waiting", "expired", "approved", "denied")}
        data["oldest"] = None if digest.oldest is None else _iso(digest.oldest)
    return data


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
