"""The outside's own record, read from the sandbox into the folder of the evidence; its faults cleared."""

import asyncio
import contextlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from sandbox.faults import KINDS
from tests.chaos.evidence import GIVEN_BACK
from tests.chaos.journal import lines
from tests.chaos.stack import StackFailure

_BACK_SECONDS = 60


class Outside:
    """The sandbox of a stack: `gateway` and `store` are its URLs, `store_key` what the store expects."""

    def __init__(self, info: dict[str, Any], store_key: str) -> None:
        self._gateway, self._store = info["sandbox"]["gateway"], info["sandbox"]["store"]
        self._authorization = {"Authorization": f"Bearer {store_key}"}
        self._http = httpx.AsyncClient(trust_env=False, verify=False, timeout=30)

    async def clear_faults(self) -> None:
        """From now on everything goes well."""
        (await self._request("DELETE", f"{self._gateway}/_faults")).raise_for_status()

    async def given_back(self) -> list[str]:
        """The ids of the refunds that failed later."""
        effects = (await self._get(f"{self._gateway}/_effects"))["effects"]
        return [each["refund_id"] for each in effects if each["status"] in GIVEN_BACK]

    async def record(self, folder: Path) -> None:
        """Write what happened: `effects.jsonl`, and `operations.jsonl` of the orders that the agents' log names."""
        effects = (await self._get(f"{self._gateway}/_effects"))["effects"]
        _write(folder / "effects.jsonl", effects)
        operations: list[dict[str, Any]] = []
        for line in lines(folder / "agents.jsonl"):
            if line["kind"] == "order":
                order_id = line["order_id"]
                found = await self._get(f"{self._store}/orders/{order_id}")
                operations += [
                    {"order_id": order_id, "operation_id": each["operation_id"], "kind": each["kind"]}
                    for each in (found or {"operations": []})["operations"]
                ]
        _write(folder / "operations.jsonl", operations)

    async def faults(self) -> Counter[str]:
        """How many requests each kind of fault spoiled."""
        requests = (await self._get(f"{self._gateway}/_requests"))["requests"]
        named = (each["done"].partition("; ")[2].partition(":")[0] for each in requests)
        return Counter(name for name in named if name in KINDS)

    async def close(self) -> None:
        await self._http.aclose()

    async def _request(self, method: str, url: str) -> httpx.Response:
        """One request; the sandbox may just be on its way back."""
        for _ in range(_BACK_SECONDS * 2):
            with contextlib.suppress(httpx.TransportError):
                return await self._http.request(method, url, headers=self._authorization)
            await asyncio.sleep(0.5)
        raise StackFailure(f"the sandbox did not come back within {_BACK_SECONDS} s")

    async def _get(self, url: str) -> Any:
        """The JSON at `url`; None when there is nothing."""
        response = await self._request("GET", url)
        if response.status_code == 404:
            return None
        return response.raise_for_status().json()


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
