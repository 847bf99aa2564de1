"""What a running stack tells Prometheus is what its alerts and its dashboard ask for."""

import json
import re
import secrets
import time

from runtime.cli.main import run
from tests.deploy.queries import exported, expressions, metrics_of
from tests.e2e.running import RunningStack

PATIENCE = 60
# Nobody's name, nobody's id, nothing that a caller made up.
LABELS = {
    "tool",
    "status",
    "code",
    "outcome",
    "verdict",
    "limit",
    "kind",
    "by",
    "queue",
    "dependency",
    "gateway",
    "le",
    "http_request_method",
    "http_route",
    "http_response_status_code",
    "counterseal_system",
    "url_template",
    "error_type",
}


def scrape(stack: RunningStack) -> str:
    """Of the API, which is open in a stack of one machine, and of the worker."""
    port = json.loads((stack.data / "ports.json").read_text())["metrics"]
    answers = [stack.http.get(f"{stack.info['api']}/metrics"), stack.http.get(f"http://127.0.0.1:{port}/metrics")]
    assert [answer.status_code for answer in answers] == [200, 200]
    return "\n".join(answer.text for answer in answers)


def play(stack: RunningStack) -> None:
    """Something of all that is measured."""
    customer = stack.order()
    for amount in (1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006):
        limited = customer.refund(amount)
    assert limited.json()["code"] == "RATE_LIMITED"
    denied, approved, waiting, lost = (stack.order() for _ in range(4))
    for each in (denied, approved, waiting):
        assert each.refund(31_240).status_code == 202
    assert denied.decide("deny", "not damaged on the photo").status_code == 200
    assert approved.decide("approve").status_code == 200
    stack.fault("refund", "drop_before_read", lost.payment_id)
    assert lost.refund(2_000).json()["code"] == "OUTCOME_UNKNOWN"
    assert stack.get("/v1/tools", "no token").status_code == 401
    assert stack.get(f"/no/such/{secrets.token_hex(4)}", "no token").status_code == 404


def test_alerts_and_dashboard_ask_for_what_is_there(stack: RunningStack) -> None:
    play(stack)
    # An operator's switch is told of as a breaker's is; nobody's agent is stopped by this one.
    switch = ["agent:nobody", "--reason", "example", "--data", str(stack.data)]
    assert run(["switches", "off", *switch]) == 0
    asked = {name for each in expressions() for name in metrics_of(each)}
    deadline = time.monotonic() + PATIENCE
    while missing := asked - exported(scraped := scrape(stack)):
        assert time.monotonic() < deadline, sorted(missing)
        time.sleep(0.5)
    assert run(["switches", "on", *switch]) == 0
    ours = re.findall(r"^((?:counterseal|http)_\w+)\{([^}]*)\}", scraped, re.MULTILINE)
    assert {label.split("=")[0] for _, labels in ours for label in re.findall(r'\w+="', labels)} <= LABELS
    assert "/no/such/" not in scraped
    assert 'counterseal_limit_hits_total{limit="refunds_per_run",tool="issue_refund"}' in scraped
    assert 'counterseal_up{dependency="temporal"} 1.0' in scraped
