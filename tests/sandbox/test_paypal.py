"""The simulated PayPal: its API as PayPal documents it, its record and its control surface."""

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

ID, SECRET = "client-for-tests", "secret-for-tests"


class PayPal:
    """A running process on a data directory, and a client with an access token."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data, self.arguments = data, arguments
        self.start()

    def start(self) -> None:
        ready = self.data.with_name(f"{self.data.name}.ready.json")
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "sandbox.paypal", "--data", str(self.data), "--ready-file", str(ready)]
        self.process = subprocess.Popen(
            [*command, *self.arguments],
            env={**os.environ, "SANDBOX_PAYPAL_CLIENT_ID": ID, "SANDBOX_PAYPAL_CLIENT_SECRET": SECRET},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        give_up = time.monotonic() + 30
        while not ready.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < give_up, "it did not get ready"
            time.sleep(0.01)
        self.url = json.loads(ready.read_text())["gateway"]
        self.api = httpx.Client(base_url=self.url, trust_env=False, timeout=5)
        self.api.headers["Authorization"] = f"Bearer {self.token().json()['access_token']}"

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.api.close()
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=10)
        return self.process.returncode, errors

    def token(self, secret: str = SECRET, **form: str) -> httpx.Response:
        form = form or {"grant_type": "client_credentials"}
        return self.api.post("/v1/oauth2/token", auth=(ID, secret), data=form)

    def capture(self, value: str = "100.00", currency: str = "USD", **more: Any) -> str:
        capture_id = secrets.token_hex(9).upper()
        line = {"amount": {"currency_code": currency, "value": value}, **more}
        self.api.put(f"/_captures/{capture_id}", json=line).raise_for_status()
        return capture_id

    def refund(self, capture_id: str, value: str | None = "10.00", key: str | None = None, **more: Any) -> Any:
        body = more if value is None else {"amount": {"currency_code": "USD", "value": value}, **more}
        headers = {"Prefer": "return=representation"} | ({"PayPal-Request-Id": key} if key else {})
        return self.api.post(f"/v2/payments/captures/{capture_id}/refund", json=body, headers=headers)

    def shown(self, path: str) -> dict[str, Any]:
        answer = self.api.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def listed(self, capture_id: str) -> list[dict[str, Any]]:
        related = self.shown(f"/v2/payments/captures/{capture_id}")["supplementary_data"]["related_ids"]
        (unit,) = self.shown(f"/v2/checkout/orders/{related['order_id']}")["purchase_units"]
        return unit["payments"].get("refunds", [])

    def effects(self, capture_id: str) -> list[dict[str, Any]]:
        return [each for each in self.shown("/_effects")["effects"] if each["payment_id"] == capture_id]

    def requests(self) -> list[dict[str, Any]]:
        return self.shown("/_requests")["requests"]

    def fault(self, do: str, operation: str = "refund", **more: Any) -> None:
        self.api.post("/_faults", json=[{"operation": operation, "do": do, **more}]).raise_for_status()


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PayPal]:
    running = PayPal(tmp_path_factory.mktemp("paypal") / "data")
    yield running
    running.stop()


@pytest.fixture
def paypal(_shared: PayPal) -> PayPal:
    _shared.api.delete("/_faults").raise_for_status()
    return _shared


def issue(answer: httpx.Response) -> tuple[int, str, str]:
    content = answer.json()
    return answer.status_code, content["name"], content["details"][0]["issue"]


def test_a_token_is_for_the_client_and_opens_the_api(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    granted = paypal.token()
    assert granted.json()["token_type"] == "Bearer"
    assert granted.json()["expires_in"] == 32_400
    refused = paypal.token("wrong")
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert paypal.token(grant_type="password").status_code == 400
    url = f"{paypal.url}/v2/payments/captures/{capture_id}"
    missing = httpx.get(url, trust_env=False)
    assert (missing.status_code, missing.json()["name"]) == (401, "AUTHENTICATION_FAILURE")
    for wrong in ("Bearer nonsense", f"Basic {SECRET}"):
        answer = httpx.get(url, headers={"Authorization": wrong}, trust_env=False)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_token")
    assert paypal.requests()[-1]["done"] == "unauthorized"
    assert SECRET not in json.dumps(paypal.requests())


def test_a_refund_has_paypals_shape_and_is_recorded(paypal: PayPal) -> None:
    capture_id, key = paypal.capture(), secrets.token_hex(8)
    answer = paypal.refund(capture_id, "25.5", key, custom_id="op_1", note_to_payer="Sorry")
    made = answer.json()
    assert answer.status_code == 201
    assert answer.headers["PayPal-Debug-Id"]
    assert made["amount"] == {"currency_code": "USD", "value": "25.50"}
    assert (made["status"], made["custom_id"], made["note_to_payer"]) == ("COMPLETED", "op_1", "Sorry")
    links = {each["rel"]: each["href"] for each in made["links"]}
    assert links["up"] == f"{paypal.url}/v2/payments/captures/{capture_id}"
    assert paypal.shown(f"/v2/payments/refunds/{made['id']}") == made
    assert paypal.listed(capture_id) == [made]
    (effect,) = paypal.effects(capture_id)
    assert effect.pop("at")
    assert effect == {
        "refund_id": made["id"],
        "payment_id": capture_id,
        "amount": "25.50",
        "currency": "USD",
        "idempotency_key": key,
        "operation_id": "op_1",
        "status": "COMPLETED",
    }


def test_without_prefer_the_answer_is_short(paypal: PayPal) -> None:
    made = paypal.api.post(f"/v2/payments/captures/{paypal.capture()}/refund", json={})
    assert made.json().keys() == {"id", "status", "links"}


def test_a_repeated_request_id_brings_the_latest_status_whatever_comes_with_it(paypal: PayPal) -> None:
    capture_id, key = paypal.capture(), secrets.token_hex(8)
    made = paypal.refund(capture_id, "10.00", key).json()
    again = paypal.refund(capture_id, "99.00", key)
    assert (again.status_code, again.json()) == (200, made)
    paypal.api.post(f"/_refunds/{made['id']}", json={"status": "FAILED"}).raise_for_status()
    assert paypal.refund(capture_id, "10.00", key).json()["status"] == "FAILED"
    assert len(paypal.effects(capture_id)) == 1


def test_what_was_refused_may_be_sent_again_with_its_id(paypal: PayPal) -> None:
    capture_id, key = paypal.capture(), secrets.token_hex(8)
    assert paypal.refund(capture_id, "100.01", key).status_code == 422
    assert paypal.refund(capture_id, "100.00", key).status_code == 201


def test_two_at_once_with_one_id_are_one_refund(paypal: PayPal) -> None:
    capture_id, key = paypal.capture(), secrets.token_hex(8)
    paypal.fault("delay:0.8", payment_id=capture_id)
    with ThreadPoolExecutor(1) as other:
        slow = other.submit(paypal.refund, capture_id, "10.00", key)
        while not paypal.effects(capture_id):
            time.sleep(0.01)
        assert issue(paypal.refund(capture_id, "10.00", key)) == (
            409,
            "RESOURCE_CONFLICT",
            "PREVIOUS_REQUEST_IN_PROGRESS",
        )
        assert slow.result().status_code == 201
    assert paypal.refund(capture_id, "10.00", key).status_code == 200
    assert len(paypal.effects(capture_id)) == 1


@pytest.mark.parametrize(
    ("capture", "body", "said"),
    [
        ({}, {"value": "100.01"}, (422, "UNPROCESSABLE_ENTITY", "REFUND_AMOUNT_EXCEEDED")),
        ({}, {"value": "0.00"}, (422, "UNPROCESSABLE_ENTITY", "CANNOT_BE_ZERO_OR_NEGATIVE")),
        ({}, {"value": "-1.00"}, (422, "UNPROCESSABLE_ENTITY", "CANNOT_BE_ZERO_OR_NEGATIVE")),
        ({}, {"value": "1.001"}, (422, "UNPROCESSABLE_ENTITY", "DECIMAL_PRECISION")),
        ({}, {"value": "one"}, (400, "INVALID_REQUEST", "INVALID_PARAMETER_SYNTAX")),
        ({}, {"value": "1.00", "custom_id": "x" * 128}, (400, "INVALID_REQUEST", "INVALID_STRING_MAX_LENGTH")),
        ({}, {"value": "1.00", "note_to_payer": "x" * 256}, (400, "INVALID_REQUEST", "INVALID_STRING_MAX_LENGTH")),
        ({}, {"value": "1.00", "unknown": 1}, (400, "INVALID_REQUEST", "INVALID_PARAMETER_SYNTAX")),
        ({"pending": True}, {"value": "1.00"}, (422, "UNPROCESSABLE_ENTITY", "PENDING_CAPTURE")),
        ({"disputed": True}, {"value": "1.00"}, (422, "UNPROCESSABLE_ENTITY", "TRANSACTION_DISPUTED")),
        ({"currency": "EUR"}, {"value": "1.00"}, (422, "UNPROCESSABLE_ENTITY", "REFUND_CAPTURE_CURRENCY_MISMATCH")),
    ],
)
def test_what_paypal_refuses(
    paypal: PayPal, capture: dict[str, Any], body: dict[str, Any], said: tuple[int, str, str]
) -> None:
    capture_id = paypal.capture(**capture)
    assert issue(paypal.refund(capture_id, **body)) == said
    assert paypal.effects(capture_id) == []


def test_a_currency_without_decimals_takes_none(paypal: PayPal) -> None:
    capture_id = paypal.capture("1000", "HUF")
    path = f"/v2/payments/captures/{capture_id}/refund"
    refused = paypal.api.post(path, json={"amount": {"currency_code": "HUF", "value": "10.00"}})
    assert issue(refused) == (422, "UNPROCESSABLE_ENTITY", "DECIMALS_NOT_SUPPORTED")
    assert paypal.api.post(path, json={"amount": {"currency_code": "HUF", "value": "10"}}).status_code == 201
    assert paypal.effects(capture_id)[0]["amount"] == "10"


def test_the_rest_is_refunded_once(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    paypal.refund(capture_id, "30.00")
    assert paypal.shown(f"/v2/payments/captures/{capture_id}")["status"] == "PARTIALLY_REFUNDED"
    assert paypal.refund(capture_id, None).json()["amount"]["value"] == "70.00"
    assert paypal.shown(f"/v2/payments/captures/{capture_id}")["status"] == "REFUNDED"
    assert issue(paypal.refund(capture_id, None)) == (422, "UNPROCESSABLE_ENTITY", "CAPTURE_FULLY_REFUNDED")


def test_a_late_failure_gives_the_money_back(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    made = paypal.refund(capture_id, "100.00").json()
    paypal.api.post(f"/_refunds/{made['id']}", json={"status": "CANCELLED"}).raise_for_status()
    assert paypal.shown(f"/v2/payments/captures/{capture_id}")["status"] == "COMPLETED"
    assert paypal.refund(capture_id, "60.00").status_code == 201
    assert paypal.api.post(f"/_refunds/{made['id']}", json={"status": "COMPLETED"}).status_code == 422
    assert paypal.api.post(f"/_refunds/{made['id']}", json={"status": "LOST"}).status_code == 422


def test_a_refund_by_hand_is_no_effect_of_the_api(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    made = paypal.api.post("/_refunds", json={"payment_id": capture_id, "amount": "5.00"})
    assert "custom_id" not in made.json()
    assert [each["id"] for each in paypal.listed(capture_id)] == [made.json()["id"]]
    assert paypal.effects(capture_id) == []


def test_disputes_are_listed_by_their_transaction(paypal: PayPal) -> None:
    disputed, other = paypal.capture(disputed=True), paypal.capture()
    path = "/v1/customer/disputes?disputed_transaction_id="
    (found,) = paypal.shown(path + disputed)["items"]
    assert found["status"] == "UNDER_REVIEW"
    assert disputed not in json.dumps(
        {key: value for key, value in found.items() if key not in ("dispute_id", "links")}
    )
    assert paypal.shown(path + other)["items"] == []
    assert paypal.shown(path + "UNKNOWN")["items"] == []
    # All of it may be refunded, a part of it not.
    assert paypal.refund(disputed, "100.00").status_code == 201


@pytest.mark.parametrize(
    "path",
    ["/v2/payments/captures/X", "/v2/payments/refunds/X", "/v2/checkout/orders/X", "/v2/x", "/v1/customer/disputes/X"],
)
def test_what_does_not_exist_is_missing(paypal: PayPal, path: str) -> None:
    assert issue(paypal.api.get(path)) == (404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")


def test_a_form_is_no_refund(paypal: PayPal) -> None:
    answer = paypal.api.post(f"/v2/payments/captures/{paypal.capture()}/refund", data={"amount": "1"})
    assert (answer.status_code, answer.json()["name"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_faults_meet_the_payment_that_they_name(paypal: PayPal) -> None:
    mine, other = paypal.capture(), paypal.capture()
    made = paypal.refund(mine, "1.00").json()
    for operation in ("refund", "list", "get", "get", "get"):
        paypal.fault("503", operation, payment_id=mine)
    assert paypal.refund(other).status_code == 201
    assert paypal.listed(other)
    assert paypal.refund(mine).json()["name"] == "SERVICE_UNAVAILABLE"
    assert paypal.api.get(f"/v2/payments/captures/{mine}").status_code == 503
    assert paypal.api.get(f"/v2/payments/refunds/{made['id']}").status_code == 503
    assert paypal.api.get(f"/v1/customer/disputes?disputed_transaction_id={mine}").status_code == 503
    assert paypal.api.get(f"/v2/checkout/orders/ORDER-{mine}").status_code == 503
    assert paypal.shown("/_faults") == {"faults": []}
    assert paypal.api.post("/_faults", json=[{"operation": "refund", "do": "explode"}]).status_code == 422


def test_lies_are_told_in_paypals_shapes(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    for operation in ("refund", "list"):
        paypal.fault("wrong_amount", operation)
    assert paypal.refund(capture_id, "10.00", custom_id="op_1").json()["amount"]["value"] == "10.01"
    assert paypal.listed(capture_id)[0]["amount"]["value"] == "10.01"
    paypal.fault("wrong_id", "list")
    assert paypal.listed(capture_id)[0]["custom_id"] == "op_0"
    assert paypal.listed(capture_id)[0]["custom_id"] == "op_1"
    paypal.fault("duplicate_keys", "get")
    text = paypal.api.get(f"/v2/payments/captures/{capture_id}").text
    assert text.count('"status":') > 1


def test_what_is_pending_fails_when_it_is_looked_at(paypal: PayPal) -> None:
    capture_id = paypal.capture()
    paypal.fault("pending_then_failed")
    paypal.fault("pending")
    first, second = (paypal.refund(capture_id, "1.00").json() for _ in range(2))
    assert (first["status"], second["status"]) == ("PENDING", "PENDING")
    assert [each["status"] for each in paypal.listed(capture_id)] == ["FAILED", "PENDING"]
    assert paypal.shown(f"/v2/payments/refunds/{second['id']}")["status_details"]


def test_a_webhook_is_delivered_with_its_signature(paypal: PayPal) -> None:
    got: list[tuple[dict[str, str], bytes]] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.handle_request, daemon=True).start()
    made = paypal.refund(paypal.capture(), "1.00").json()
    wanted = {"event_type": "PAYMENT.REFUND.FAILED", "subject": made["id"], "webhook_id": "WH1"}
    sent = paypal.api.post("/_webhooks", json=wanted | {"url": f"http://127.0.0.1:{server.server_port}/hook"}).json()
    server.server_close()
    assert sent["status"] == 204
    ((headers, body),) = got
    assert body.decode() == sent["body"]
    assert {name: headers[name.lower()] for name in sent["headers"]} == sent["headers"]
    assert json.loads(body)["resource"]["id"] == made["id"]
    assert paypal.api.get(headers["paypal-cert-url"]).text.startswith("-----BEGIN CERTIFICATE-----")
    assert paypal.api.post("/_webhooks", json=wanted | {"event_type": "X"}).status_code == 422
    assert paypal.api.post("/_webhooks", json=wanted | {"subject": "X"}).status_code == 404


def test_everything_survives_being_killed(tmp_path: Path) -> None:
    running = PayPal(tmp_path / "data")
    capture_id, key = running.capture(), secrets.token_hex(8)
    made, root = running.refund(capture_id, "1.00", key).json(), running.api.get("/_root").text
    running.stop(signal.SIGKILL)
    running.start()
    assert running.refund(capture_id, "1.00", key).json()["id"] == made["id"]
    assert len(running.effects(capture_id)) == 1
    assert running.api.get("/_root").text == root
    assert running.stop() == (0, "")


def test_tokens_expire_and_can_be_revoked(tmp_path: Path) -> None:
    running = PayPal(tmp_path / "data", "--token-seconds", "1")
    try:
        capture_id = running.capture()
        path = f"/v2/payments/captures/{capture_id}"
        give_up = time.monotonic() + 10
        while running.api.get(path).status_code != 401:
            assert time.monotonic() < give_up
            time.sleep(0.05)
        running.api.headers["Authorization"] = f"Bearer {running.token().json()['access_token']}"
        running.api.delete("/_tokens").raise_for_status()
        assert running.api.get(path).status_code == 401
    finally:
        running.stop()


@pytest.mark.parametrize(
    ("environment", "arguments", "said"),
    [
        ({"SANDBOX_PAYPAL_CLIENT_ID": ""}, (), "sandbox: SANDBOX_PAYPAL_CLIENT_ID is not set\n"),
        ({}, ("--port", "99999"), "sandbox: cannot use"),
    ],
)
def test_what_hinders_the_start_is_one_line(
    tmp_path: Path, environment: dict[str, str], arguments: tuple[str, ...], said: str
) -> None:
    known = {"SANDBOX_PAYPAL_CLIENT_ID": ID, "SANDBOX_PAYPAL_CLIENT_SECRET": SECRET}
    done = subprocess.run(
        [sys.executable, "-m", "sandbox.paypal", "--data", str(tmp_path), *arguments],
        env={**os.environ, **known, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
