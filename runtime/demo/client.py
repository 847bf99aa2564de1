"""The agent API as an agent runtime uses it, over httpx."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

# What a request may take beyond the time that it asks the service to wait.
_GRACE_SECONDS = 30
_LONGEST_SECONDS = 60 + _GRACE_SECONDS


class ApiProblem(Exception):
    """The API did not answer as the contract says. The text is one line, without headers or URLs."""


class Answer(BaseModel):
    """A reply object, as far as the demo reads it. `allowed` has the limits that a repaired call must keep."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    status: str
    code: str
    request_id: str
    message: str
    allowed: dict[str, int | str] | None = None
    decision: str | None = None
    result: dict[str, JsonValue] | None = None


class RunOpened(BaseModel):
    """A new run, with its token."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    run_id: str
    run_token: str
    expires_at: str


def agent_client(api: str, *, transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """A client for `api` (a URL): no proxies from the environment, no redirects, no retries."""
    return httpx.AsyncClient(
        base_url=api,
        trust_env=False,
        follow_redirects=False,
        timeout=_LONGEST_SECONDS,
        transport=transport,
    )


class AgentApi:
    """Opens runs with a service token and calls tools with their run tokens."""

    def __init__(self, http: httpx.AsyncClient, service_token: str) -> None:
        self._http = http
        self._service_token = service_token

    async def open_run(self, *, agent_id: str, actor_id: str, customer_id: str, tools: Sequence[str]) -> str:
        """The token of a new run. Raises ApiProblem, also when the run is refused."""
        opened = await self.open(agent_id=agent_id, actor_id=actor_id, customer_id=customer_id, tools=tools)
        return opened.run_token

    async def open(
        self,
        *,
        agent_id: str,
        actor_id: str,
        customer_id: str,
        tools: Sequence[str],
        expires_in_seconds: int = 3600,
        resource: str | None = None,
    ) -> RunOpened:
        """A new run. `resource`: the one interface, by its URL, that its token is good at. Raises ApiProblem, also when
        the run is refused."""
        body = {
            "agent_id": agent_id,
            "actor_id": actor_id,
            "customer_id": customer_id,
            "tools": list(tools),
            "expires_in_seconds": expires_in_seconds,
            **({} if resource is None else {"resource": resource}),
        }
        response = await self._send("POST", "/v1/runs", self._service_token, json=body)
        content = _object(response)
        if response.status_code != 201:
            raise ApiProblem(f"no run was opened: {content.get('message') or f'HTTP {response.status_code}'}")
        try:
            return RunOpened.model_validate(content)
        except ValidationError:
            raise ApiProblem("the API answered something that is no run") from None

    async def resource_of(self, surface: str) -> str:
        """What tokens call that interface (RFC 9728), which need not be the URL that it is reached by here. Raises
        ApiProblem."""
        response = await self._send("GET", f"/.well-known/oauth-protected-resource/{surface}", self._service_token)
        if response.status_code != 200 or not isinstance(resource := _object(response).get("resource"), str):
            raise ApiProblem(f"the service does not say what it is called (HTTP {response.status_code})")
        return resource

    async def call(
        self,
        run_token: str,
        tool: str,
        arguments: Mapping[str, JsonValue],
        *,
        dry_run: bool = False,
        wait_seconds: int = 20,
        traceparent: str | None = None,
    ) -> Answer:
        """Call a tool, and wait at most so long for it to settle or park. `traceparent` (W3C Trace Context) says which
        turn of the agent's it belongs to. Raises ApiProblem."""
        body = {"tool": tool, "arguments": dict(arguments), "dry_run": dry_run}
        headers = {"traceparent": traceparent} if traceparent else {}
        return await self._answer("POST", "/v1/tool-calls", run_token, wait_seconds, json=body, headers=headers)

    async def progress(self, run_token: str, request_id: str, *, wait_seconds: int = 0) -> Answer:
        """How a call stands, after at most so long. Raises ApiProblem."""
        return await self._answer("GET", f"/v1/tool-calls/{request_id}", run_token, wait_seconds)

    async def _answer(self, method: str, path: str, token: str, wait_seconds: int, **content: Any) -> Answer:
        response = await self._send(
            method, path, token, seconds=wait_seconds, params={"wait_seconds": wait_seconds}, **content
        )
        return _read_answer(response)

    async def _send(
        self,
        method: str,
        path: str,
        token: str,
        *,
        seconds: int = 0,
        headers: Mapping[str, str] | None = None,
        **content: Any,
    ) -> httpx.Response:
        own = {**(headers or {}), "Authorization": f"Bearer {token}"}
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                return await self._http.request(method, path, headers=own, **content)
        except (httpx.HTTPError, TimeoutError) as error:
            raise ApiProblem(f"the API does not answer ({type(error).__name__})") from None


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ApiProblem(f"the API answered something that is no JSON object (HTTP {response.status_code})")
    return cast("dict[str, Any]", content)


def _read_answer(response: httpx.Response) -> Answer:
    try:
        return Answer.model_validate(_object(response))
    except ValidationError:
        raise ApiProblem(f"the API answered something that is no reply (HTTP {response.status_code})") from None
