"""Notices that people were not told, in words. Pure."""

from dataclasses import dataclass

from api.context import Context
from api.pages.views import tool_title
from ledger.notices import Notice
from schemas.notices import NoticeProblem, Topic

_TOPICS: dict[Topic, str] = {
    "approval_requested": "An approval is wanted",
    "approval_expiring": "An approval expires soon",
    "approval_expired": "An approval expired",
    "alert": "An alert",
    "notice": "Something ran without a person being asked",
    "digest": "The digest of a day",
}
PROBLEMS: dict[NoticeProblem, str] = {
    "no_channel": "the notices file has no such channel any more",
    "no_credential": "its credential is in neither the vault nor the environment",
    "vault_locked": "the vault is locked",
    "misconfigured": "its credential is not of the right form",
    "egress_denied": "it would have gone where it may not go",
    "connect_failed": "no connection could be made",
    "tls_failed": "no encrypted connection could be made",
    "timeout": "it took too long",
    "no_answer": "the connection ended without an answer",
    "refused": "the other side will not take it",
    "sign_in_refused": "the other side did not take the user name and password",
    "try_later": "the other side asked to be tried later",
}


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """A notice in words. `about` is the action of its call, or the group of a digest."""

    notice: Notice
    what: str
    about: str
    why: str


def notice_row(services: Context, notice: Notice) -> NoticeRow:
    about = tool_title(services, notice.tool) if notice.tool else notice.approvers or ""
    why = PROBLEMS[notice.problem] if notice.problem else "it was not tried in time"
    return NoticeRow(notice, _TOPICS[notice.topic], about, why)
