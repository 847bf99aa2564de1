"""Two APIs and three workers of every queue on one Temporal: nothing is done twice, lost, or counted apart."""

import collections
import secrets
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runtime.stack.ports import PortClaims
from runtime.stack.postgres import Postgres
from tests.e2e.processes import ground
from tests.e2e.running import Customer, RunningStack
from tests.service import SANDBOX_KEY

HOLDS = {"COUNTERSEAL_SANDBOX_GATEWAY_KEY": SANDBOX_KEY, "COUNTERSEAL_STORE_KEY": SANDBOX_KEY}
WORKERS, AT_ONCE = ("first", "second", "third"), 8


@dataclass(frozen=True)
class Scaled:
    """The same service at two addresses."""

    stacks: tuple[RunningStack, RunningStack]

    def customers(self, number: int, *, paid: int = 50_000) -> list[tuple[Customer, Customer]]:
        """Each as one API and as the other knows them."""
        here, there = self.stacks
        made = [here.order(paid=paid) for _ in range(number)]
        return [(each, replace(each, stack=there)) for each in made]


@pytest.fixture(scope="module")
def scaled(
    postgres_server: Postgres, migrated_template: str, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Scaled]:
    folder = tmp_path_factory.mktemp("scale")
    with ground(postgres_server, migrated_template, temporal_server, folder) as over, ExitStack() as opened:
        port = opened.enter_context(PortClaims()).claim_any()
        another = replace(over, info={**over.info, "api": f"http://127.0.0.1:{port}"})
        apis = [
            opened.enter_context(over.program("api", ["api"])),
            opened.enter_context(another.program("api-2", ["api"], {"COUNTERSEAL_API_PORT": str(port)})),
        ]
        workers = [opened.enter_context(over.program(name, ["worker"], HOLDS)) for name in WORKERS]
        for each in (*apis, *workers):
            each.until_ready()
        stacks = (over.stack(apis[0]), another.stack(apis[1]))
        yield Scaled(stacks)
        for each in stacks:
            each.http.close()


def test_calls_over_both_apis_are_each_done_once(scaled: Scaled) -> None:
    """Every refund is asked for at both APIs at once under one key; they are one call."""

    def refund(who: tuple[Customer, Customer]) -> tuple[Customer, list[dict[str, Any]]]:
        key = secrets.token_hex(16)
        with ThreadPoolExecutor(2) as both:
            replies = both.map(lambda each: each.refund(4_999, key=key).json(), who)
        return who[0], list(replies)

    with ThreadPoolExecutor(AT_ONCE) as many:
        done = list(many.map(refund, scaled.customers(12)))
    for customer, (one, other) in done:
        assert one["request_id"] == other["request_id"]
        assert customer.progress(one["request_id"])["status"] == "executed"
        assert ([each["amount"] for each in customer.effects()], customer.posts()) == ([4_999], 1)


def test_what_waits_at_one_api_is_decided_once_at_either(scaled: Scaled) -> None:
    def decided(who: tuple[Customer, Customer]) -> tuple[Customer, str, list[int]]:
        parked = who[0].refund(31_240).json()
        approval = who[1].waiting()
        body = {"decision": "approve", "action_digest": approval["action_digest"], "reason": ""}
        path = f"/v1/approvals/{approval['approval_id']}/decision"
        with ThreadPoolExecutor(2) as both:
            statuses = both.map(
                lambda each: each.stack.post(path, each.stack.approver()["token"], body).status_code, who
            )
        return who[1], parked["request_id"], sorted(statuses)

    with ThreadPoolExecutor(AT_ONCE) as many:
        done = list(many.map(decided, scaled.customers(6)))
    for customer, request_id, statuses in done:
        assert statuses == [200, 409]
        assert customer.progress(request_id)["status"] == "executed"
        assert ([each["amount"] for each in customer.effects()], customer.posts()) == ([31_240], 1)


def test_what_is_left_is_given_out_once_by_both(scaled: Scaled) -> None:
    """Ten refunds of one payment at both APIs, where three fit."""
    ((here, there),) = scaled.customers(1, paid=3_500)
    with ThreadPoolExecutor(AT_ONCE) as many:
        replies = list(
            many.map(lambda each: each.refund(1_000, note=secrets.token_hex(4)).json(), [here, there, here, there] * 3)
        )
    codes = collections.Counter(each["code"] for each in replies)
    # The very same refund within ten minutes waits for a person; what waits is taken as well.
    taken = codes["OK"] + codes["PENDING_APPROVAL"]
    assert taken == 3, codes
    assert sum(each["amount"] for each in here.effects()) == 1_000 * codes["OK"]
