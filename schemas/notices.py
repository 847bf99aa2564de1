"""What people are told without having asked."""

from typing import Literal

from schemas.base import Model
from schemas.ids import NoticeId

Topic = Literal["approval_requested", "approval_expiring", "approval_expired", "alert", "notice", "digest"]
"""An approval is wanted; its deadline is near; it has passed; operators have to know; a call ran and somebody is to be
told (the policy's `notify`); the day of a group of approvers."""

NoticeState = Literal["due", "sending", "delivered", "moot", "undelivered"]
"""`moot`: it was too late to be of use, e.g. to ask for what somebody has decided meanwhile."""

NoticeProblem = Literal[
    "no_channel",
    "no_credential",
    "vault_locked",
    "misconfigured",
    "egress_denied",
    "connect_failed",
    "tls_failed",
    "timeout",
    "no_answer",
    "refused",
    "sign_in_refused",
    "try_later",
]
"""Why an attempt to tell came to nothing. `refused`: the other side will not take it, however often it is sent."""


class NoticeRef(Model):
    """Input of the activities that work on one notice."""

    notice_id: NoticeId


class NotifyInput(Model):
    """Input of the workflow `Notify`; `queue` is the task queue where the channels' credentials are, and after
    `patience_seconds` nothing more is tried."""

    notice: NoticeRef
    queue: str
    patience_seconds: int
