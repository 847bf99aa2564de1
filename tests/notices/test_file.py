"""The notices file: strict, and clear about what is wrong and where."""

from pathlib import Path

import pytest

from notices.file import EmailChannel, NoticesFile, NoticesFileError, SlackChannel, WebhookChannel, load_notices

GOOD = """\
zone: Europe/Berlin
expiring: { part: 3, at_most: 2h }
digest: { hour: 9, zone: America/New_York }
channels:
  finance-mail:
    kind: email
    host: smtp.example.com
    username: counterseal
    password: env:SMTP_PASSWORD
    from: approvals@example.com
    to: [finance@example.com]
  finance-slack:
    kind: slack
    url: vault
  audit:
    kind: webhook
    url: https://audit.example.com/counterseal
    secret: vault
routes:
  - tell: [approval_requested, digest]
    approvers: [finance]
    over: [finance-mail, finance-slack]
  - tell: [alert]
    over: [audit]
"""


def load(tmp_path: Path, text: str) -> NoticesFile:
    file = tmp_path / "notices.yaml"
    file.write_text(text)
    return load_notices(file)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(NoticesFileError) as error:
        load(tmp_path, text)
    return [each.removeprefix(f"{tmp_path / 'notices.yaml'}: ") for each in error.value.problems]


def test_a_whole_file(tmp_path: Path) -> None:
    read = load(tmp_path, GOOD)
    assert [type(each) for each in read.channels.values()] == [EmailChannel, SlackChannel, WebhookChannel]
    mail = read.channels["finance-mail"]
    assert isinstance(mail, EmailChannel)
    assert (mail.port, mail.tls, mail.sender) == (587, "starttls", "approvals@example.com")
    assert (read.expiring.part, read.expiring.at_most) == (3, 7200)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("kind: slack", "kind: pager", "line 12: channels / finance-slack: needs a kind of those that there are"),
        ("    kind: slack\n", "", "line 12: channels / finance-slack: needs a kind of those"),
        ("smtp.example.com", "smtp..example.com", "line 7: channels / finance-mail / host: must be a host name"),
        ("smtp.example.com", "2130706433", "line 7: channels / finance-mail / host: "),
        ("    from: approvals@example.com\n", "", "line 5: channels / finance-mail / from: is missing"),
        ("approvals@example.com", '"approvals@example.com\\r\\nBcc: x@example.com"', "line 10: channels"),
        ("[finance@example.com]", "[]", "line 11: channels / finance-mail / to: "),
        (
            "[finance@example.com]",
            "[finance@example.com, not an address]",
            "line 11: channels / finance-mail / to / no.",
        ),
        ("env:SMTP_PASSWORD", "hunter2", "line 9: channels / finance-mail / password: must match ^(vault|env:"),
        ("    password: env:SMTP_PASSWORD\n", "", "line 5: channels / finance-mail: a username needs a password"),
        (
            "host: smtp.example.com",
            "host: smtp.example.com\n    tls: none",
            "line 5: channels / finance-mail: tls: none",
        ),
        ("https://audit", "http://audit", "line 15: channels / audit: url must begin with https://"),
        ("https://audit", "https://user:pw@audit", "line 17: channels / audit / url: a base URL must have"),
        ("    secret: vault", "    secret: vault\n    sercet: x", "line 19: channels / audit / sercet: there is no"),
        ("zone: Europe/Berlin", "zone: Europe/Atlantis", "line 1: zone: must be the IANA name of a time zone"),
        ("zone: Europe/Berlin", "zone: ../../etc/passwd", "line 1: zone: must be the IANA name of a time zone"),
        ("hour: 9", "hour: 24", "line 3: digest / hour: input should be less than or equal to 23"),
        ("at_most: 2h", "at_most: 2", "line 2: expiring / at_most: write a duration"),
        ("over: [audit]", "over: [adit]", "line 1: route no. 2: there is no channel adit"),
        ("digest: { hour: 9, zone: America/New_York }\n", "", "line 1: route no. 1: digest needs a time"),
        ("  - tell: [alert]", "  - tell: [alert]\n    approvers: [finance]", "line 23: routes / no. 2: approvers can"),
        ("tell: [alert]", "tell: [alarm]", "line 23: routes / no. 2 / tell / no. 1: must be 'approval_requested'"),
        ("channels:", "channels:\nchannels:", "line 5, column 1: channels is given twice"),
        ("  audit:", "  Audit Room:", "line 15: channels / Audit Room: must match"),
        ("routes:", "routes: [", "line 20, column 3: "),
        ("zone: Europe/Berlin", "zone: !!python/object:os.system x", "line 1, column 7: "),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in GOOD
    said = problems(tmp_path, GOOD.replace(old, new, 1))
    assert said[0].startswith(problem), said
    assert "hunter2" not in "".join(said), "what may be a secret is not repeated"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NoticesFileError, match="cannot be read: No such file"):
        load_notices(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NoticesFileError, match="is not UTF-8 text"):
        load_notices(tmp_path / "binary.yaml")
    assert problems(tmp_path, "") == ["line 1: must be a mapping of names"]
    assert problems(tmp_path, "a: &a [*a]")[0].startswith("holds something")
