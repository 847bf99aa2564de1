"""Plays histories in a process of its own: hypothesis chooses them, and says the smallest one that breaks something."""

import asyncio
import logging
import time
import traceback
from collections import Counter
from dataclasses import dataclass

import structlog
import uvloop
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

import activities.proposals
from tests.model.machine import Calls
from tests.model.world import ground

STEPS = 12
_AT_A_TIME = 25


@dataclass(frozen=True)
class Played:
    """What was played, and how it failed if it did: with the smallest history, and how to play it again."""

    counts: Counter[str]
    seconds: float
    failure: str | None


def play(database_url: str, examples: int, first: int, seconds: float) -> Played:
    """So many histories, or as many as begin within so many seconds. `first` seeds the choice of histories."""
    logging.disable(logging.WARNING)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    # A fact that cannot be read is read again after a second; here it is read again at once.
    activities.proposals._PAUSES = (0.0, 0.0)
    Calls.played = Counter()
    began = time.monotonic()
    failure = None
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        shared = ground(database_url)
        Calls.ground = runner.run(shared.__aenter__())
        Calls.run_async = runner.get_loop().run_until_complete
        try:
            for n in range(-(-examples // _AT_A_TIME)):
                if time.monotonic() - began < seconds:
                    _play(min(examples, _AT_A_TIME), first + n)
        except Exception:  # noqa: BLE001 - whatever it is, the other process says it
            failure = traceback.format_exc()
        finally:
            runner.run(shared.__aexit__(None, None, None))
    return Played(Calls.played, time.monotonic() - began, failure)


def _play(examples: int, first: int) -> None:
    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(seed(first)(Calls), settings=chosen)
