"""What an upstream of the settings' file advertises, asked for by a person's command."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from gateways.client import new_client
from gateways.credentials import Credential, OneCredential
from gateways.egress import Egress
from gateways.http import NotAnswered
from gateways.upstreams import Definition
from runtime.cli.advertised import read_token
from runtime.cli.errors import CommandError
from runtime.cli.tools_diff import MCP_VARIABLE
from runtime.upstreams import UpstreamText, open_upstreams, read_upstreams
from tools.comparing import Advertised

VARIABLE = "COUNTERSEAL_UPSTREAMS"
UpstreamsFile = Annotated[
    Path | None, typer.Option("--upstreams", envvar=VARIABLE, help="The file that names MCP servers")
]


def advertised_by(name: str, file: Path | None, token_file: Path | None) -> dict[str, Definition]:
    """Everything that an upstream advertises, by name, without what is there more than once. Its credential is a token
    of the environment or a file, since this is no call of anybody's. Raises CommandError."""
    if file is None:
        raise CommandError(f"{VARIABLE} or --upstreams has to name the file that says where {name} is")
    try:
        texts = read_upstreams(file).upstreams
    except ValueError as problem:
        raise CommandError(str(problem)) from None
    if name not in texts:
        known = ", ".join(texts) or "none"
        raise CommandError(f"{file} names no upstream {name}; there is {known}")
    token = read_token(token_file, MCP_VARIABLE) if texts[name].credential else None
    if texts[name].credential and token is None:
        raise CommandError(f"{name} has a credential: give it in {MCP_VARIABLE} or --token-file")
    found = asyncio.run(_ask(name, texts[name], token))
    if isinstance(found, NotAnswered):
        raise CommandError(f"{name} does not say what it advertises ({found.exchange.problem})")
    return {tool: definition for tool, definition in found.items() if definition is not None}


async def _ask(name: str, text: UpstreamText, token: str | None) -> Mapping[str, Definition | None] | NotAnswered:
    origins = {} if text.url is None else {name: (text.url,)}
    egress = Egress(origins, private=[name] if text.is_private else [])
    held = OneCredential(Credential(MCP_VARIABLE, SecretStr(token or "")))
    async with new_client() as client:
        upstream = open_upstreams({name: text}, [name], client, egress, held, lambda change: None)[name]
        try:
            return await upstream.definitions()
        finally:
            await upstream.close()


def as_advertised(definition: Definition) -> Advertised:
    """For a comparison; a tool's own title goes before that of its annotations."""
    title = {} if definition.title is None else {"title": definition.title}
    annotations = {**definition.annotations, **title}
    return Advertised(
        definition.name, definition.description, definition.input_schema, definition.output_schema, annotations
    )
