"""Builds side by side, without any: what is said of them."""

import pytest

from runtime.cli import versions
from runtime.cli.main import run
from runtime.versions import Build, stoppable

OLD = Build("0.1.0", current=False, promoted=True, open=0, drained=True)
NEW = Build("0.2.0", current=True, promoted=True, open=0, drained=False)
NEXT = Build("0.3.0", current=False, promoted=False, open=0, drained=False)


def test_a_build_is_not_needed_once_calls_begin_elsewhere_and_none_is_open_on_it() -> None:
    busy = Build("0.1.1", current=False, promoted=True, open=1, drained=False)
    assert stoppable([NEXT, NEW, busy, OLD]) == ["0.1.0"]


def test_a_build_that_was_started_for_the_next_deploy_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(versions, "_with_versions", lambda *_: [NEXT, NEW])
    assert run(["versions", "list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if NEXT.build_id in line]
    assert "wait until it is promoted" in line


def test_where_no_build_is_current_calls_wait_and_none_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on an empty Temporal, which knows of workers and not of promotions."""
    monkeypatch.setattr(versions, "_with_versions", lambda *_: [OLD])
    assert run(["versions", "list"]) == 0
    said = capsys.readouterr().out
    assert "can be stopped" not in said
    assert "wait until one is promoted" in said
    monkeypatch.setattr(versions, "_with_versions", lambda *_: [OLD, NEW])
    assert run(["versions", "list"]) == 0
    said = capsys.readouterr().out
    assert "can be stopped" in said
    assert "wait until" not in said
