"""Where a process kills itself: only where that was asked for, as often as was asked for, and after saying so."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from activities.services import CrashPoint
from runtime.crashing import Chance, CrashPlan, crash_at, crashes, parse
from runtime.settings import SettingsError

ROOT = Path(__file__).parents[2]
ONE_PASSAGE = "import sys; from runtime.crashing import crash_at; crash_at(sys.argv[1])('send.after')"


class Died(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGKILL)
        raise Died

    monkeypatch.setattr(os, "kill", kill)


def dies(setting: str, *points: CrashPoint) -> bool:
    """Whether a process that starts with this setting dies on its way past these points."""
    reached = crash_at(setting)
    try:
        for point in points:
            reached(point)
    except Died:
        return True
    return False


def test_nothing_happens_without_the_setting() -> None:
    reached = crash_at("")
    reached("send.after")


def test_the_process_dies_at_the_point_and_says_so_first(tmp_path: Path) -> None:
    log = tmp_path / "crashes"
    command = [sys.executable, "-c", ONE_PASSAGE, f"send.after=1,log={log}"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == -signal.SIGKILL
    assert crashes(log) == ["send.after"]


@pytest.mark.usefixtures("mortal")
def test_a_number_of_times_is_counted_over_all_processes(tmp_path: Path) -> None:
    log = tmp_path / "crashes"
    setting = f"intent.after=1*2,send.after=1*1,log={log}"
    lives = [dies(setting, "intent.after", "send.after") for _ in range(5)]
    assert lives == [True, True, True, False, False]
    assert crashes(log) == ["intent.after", "intent.after", "send.after"]


@pytest.mark.usefixtures("mortal")
def test_a_chance_is_not_a_certainty() -> None:
    passages: list[CrashPoint] = ["intent.after"] * 1000
    assert not dies("intent.after=0", *passages)
    assert not dies("intent.after=1", "send.after")
    assert dies("intent.after=0.5", *passages)
    deaths = sum(dies(f"intent.after=0.5,seed={seed}", "intent.after") for seed in range(100))
    assert 20 < deaths < 80


def test_what_it_says_is_read(tmp_path: Path) -> None:
    plan = parse(" intent.before=0.25, record.after=1*3 ,seed=7,log=/example/crashes")
    chances = {"intent.before": Chance(0.25), "record.after": Chance(1.0, 3)}
    assert plan == CrashPlan(chances, 7, Path("/example/crashes"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "wrong",
    ["intent.during=1", "intent.after", "intent.after=often", "intent.after=2", "intent.after=1*x", "send.after=1*1"],
)
def test_what_it_does_not_say_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="COUNTERSEAL_CRASH_POINTS"):
        parse(wrong)
