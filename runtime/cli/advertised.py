"""What a running server advertises. Its words are a stranger's, and none of them is in an error of these functions."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import JsonValue, ValidationError

from gateways.border import Border
from gateways.http import bearer
from runtime.cli.errors import CommandError
from runtime.demo.client import agent_client
from schemas import strict_json
from tools.comparing import Advertised

DEADLINE_SECONDS = 30
MAX_BYTES = 4 * 1024 * 1024
MAX_TOOLS = 1_000
_LONGEST_TOKEN = 16_384


class _Tool(Border):
    name: str
    version: str
    description: str
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue]
    annotations: dict[str, JsonValue]


class _Tools(Border):
    tools: list[_Tool]


def origin_of(url: str) -> str:
    """`https://tools.example:8443`: what a message may say of a URL, whose path and query can be secret.

    Raises ValueError with a text of ours where it is none that can be asked.
    """
    try:
        parts = httpx.URL(url)
        urlsplit(url)  # httpx lets a bracket that is left open pass
    except (httpx.InvalidURL, ValueError):
        raise ValueError("is not a URL") from None
    if parts.scheme not in ("http", "https") or not parts.host:
        raise ValueError("is a URL that begins with http:// or https://")
    if parts.userinfo:
        raise ValueError("has no user and password in it: a token comes from the environment or a file")
    return f"{parts.scheme}://{parts.netloc.decode('ascii')}"


def read_token(file: Path | None, variable: str) -> str | None:
    """The token in `file`, else in the environment; None where neither has one. Raises CommandError for an unusable."""
    if file is None:
        source, text = variable, os.environ.get(variable, "")
        if not text.strip():
            return None
    else:
        source = str(file)
        try:
            with file.open(encoding="ascii") as opened:
                text = opened.read(_LONGEST_TOKEN + 1)
        except OSError as problem:
            raise CommandError(f"{file} cannot be read: {problem.strerror}") from None
        except UnicodeDecodeError:
            text = ""
    token = text.strip()
    if not 0 < len(token) <= _LONGEST_TOKEN or not all("!" <= each <= "~" for each in token):
        raise CommandError(f"{source} holds no token: one word of ASCII characters")
    return token


def refusal(status: int) -> str | None:
    """What an answer's status means where it is no success, in our words."""
    match status:
        case _ if 200 <= status < 300:
            return None
        case 401 | 403:
            return f"refuses the token, or that there is none (HTTP {status})"
        case _ if 300 <= status < 400:
            return f"answers with a redirect, which is not followed (HTTP {status})"
        case _:
            return f"answers with HTTP {status}"


@asynccontextmanager
async def within_deadline(origin: str) -> AsyncGenerator[None]:
    """Ends all that is done in it in time. Raises CommandError."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            yield
    except TimeoutError:
        raise CommandError(f"{origin} has not answered within {DEADLINE_SECONDS} seconds") from None


async def of_api(url: str, token: str, transport: httpx.AsyncBaseTransport | None = None) -> list[Advertised]:
    """The tools of the token's run, from `GET /v1/tools` of the service at `url`. Raises CommandError."""
    origin = origin_of(url)
    # A compressed body could be small on the wire and huge in memory.
    headers = {"Authorization": bearer(token), "Accept": "application/json", "Accept-Encoding": "identity"}
    body = bytearray()
    async with within_deadline(origin), agent_client(url, transport=transport) as client:
        try:
            async with client.stream("GET", "/v1/tools", headers=headers) as response:
                if problem := refusal(response.status_code):
                    raise CommandError(f"{origin} {problem}")
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise CommandError(f"{origin} answers with more than {MAX_BYTES} bytes")
        except httpx.HTTPError as error:
            raise CommandError(f"{origin} cannot be reached ({type(error).__name__})") from None
    try:
        strict_json.loads(bytes(body))
        tools = _Tools.model_validate_json(bytes(body)).tools  # which also bounds how deeply it is nested
    except (strict_json.UnreadableError, ValidationError):
        raise CommandError(f"{origin} answers with something that is no list of tools") from None
    if len(tools) > MAX_TOOLS:
        raise CommandError(f"{origin} lists more than {MAX_TOOLS} tools")
    return [Advertised(**dict(tool)) for tool in tools]
