"""What a history tells whoever reads it in Temporal's UI: where a call stands, and where its page is. Nothing but ids,
statuses and times. Pure."""

from datetime import datetime, timedelta

from schemas.calls import Progress

ADMITTING = "It is being decided."
SENDING = "The effect is being sent, once."


def details_of(public_url: str, request_id: str) -> str:
    """Markdown that leads from a workflow to the page of its call."""
    return f"Call [`{request_id}`]({public_url.rstrip('/')}/calls/{request_id})"


def standing(progress: Progress, now: datetime) -> str:
    """Markdown that says where a call stands, and what it waits for."""
    match progress.next:
        case "settled":
            return f"Settled: `{progress.status}`, `{progress.code.value}`.{_again(progress.recheck_at)}"
        case "hold":
            return f"Waiting for a person: approval `{progress.approval_id}`{_deadline(progress.expires_at)}."
        case "inspect":
            when = f" next at {_at(now + timedelta(seconds=progress.after_seconds))}" if progress.after_seconds else ""
            return f"The outcome is not known. It is being looked up{when}."
        case "resend":
            return "It is not there: the effect is sent again, under the same key."
        case "execute":
            return "Allowed: the effect is on its way."
        case "admit":
            return "It is being decided where its credentials are."


def _deadline(at: datetime | None) -> str:
    # People can move it meanwhile; the call learns of that when it asks.
    return f". The deadline was {_at(at)} when this was last asked" if at is not None else ""


def _again(at: datetime | None) -> str:
    return f" Its effect is looked at again from {_at(at)} on." if at is not None else ""


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
