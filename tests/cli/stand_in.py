"""A small stand-in for the agent API, shaped by the contract: answers by rule, and remembers what it was sent."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from schemas.codes import REGISTRY, Code

SERVICE_TOKEN = "service-token-of-the-tests"

Rule = Callable[[dict[str, Any]], Code]


@dataclass
class StandIn:
    """`rule` says with which code a call (its JSON body) is answered; `in_flight` counts calls being answered."""

    rule: Rule
    runs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[tuple[str, dict[str, Any], str]] = field(default_factory=list[tuple[str, dict[str, Any], str]])
    most_in_flight: int = 0
    overlapping_customers: set[str] = field(default_factory=set[str])
    _customers_in_flight: list[str] = field(default_factory=list[str])

    def transport(self) -> httpx.ASGITransport:
        routes = [
            Route("/v1/runs", self._open_run, methods=["POST"]),
            Route("/v1/tool-calls", self._call, methods=["POST"]),
        ]
        return httpx.ASGITransport(Starlette(routes=routes))

    async def _open_run(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {SERVICE_TOKEN}":
            return _problem(Code.UNAUTHENTICATED, "act_none")
        run = await request.json()
        self.runs.append(run)
        content = {"run_id": f"run_{len(self.runs)}", "run_token": f"run-{len(self.runs)}", "tools": run["tools"]}
        content["expires_at"] = "2026-11-29T19:00:00Z"
        return JSONResponse(content, 201)

    async def _call(self, request: Request) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        body = await request.json()
        customer = self.runs[int(token.removeprefix("run-")) - 1]["customer_id"]
        self.calls.append((customer, body, request.query_params["wait_seconds"]))
        if customer in self._customers_in_flight:
            self.overlapping_customers.add(customer)
        self._customers_in_flight.append(customer)
        self.most_in_flight = max(self.most_in_flight, len(self._customers_in_flight))
        for _ in range(5):  # lets the others come in
            await asyncio.sleep(0)
        self._customers_in_flight.remove(customer)
        return self._answer(self.rule(body), f"act_{len(self.calls)}")

    def _answer(self, code: Code, request_id: str) -> Response:
        spec = REGISTRY[code]
        if spec.http_status >= 400:
            return _problem(code, request_id)
        reply = _reply(code, request_id)
        return Response(json.dumps(reply), spec.http_status, media_type="application/json")


def _reply(code: Code, request_id: str) -> dict[str, Any]:
    spec = REGISTRY[code]
    return {
        "ok": spec.status in ("executed", "pending_approval"),
        "status": spec.status,
        "request_id": request_id,
        "code": code,
        "message": f"{spec.title}. More.",
        "action": spec.action,
        "retryable": spec.retryable,
    }


def _problem(code: Code, request_id: str) -> Response:
    spec = REGISTRY[code]
    content = {
        "type": f"/codes/{code}",
        "title": spec.title,
        "detail": spec.title,
        "instance": f"/v1/tool-calls/{request_id}",
        **_reply(code, request_id),
        "http_status": spec.http_status,
    }
    return JSONResponse(content, spec.http_status, media_type="application/problem+json")
