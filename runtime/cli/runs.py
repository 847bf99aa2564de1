"""`counterseal runs`: opening a run for an agent, as its runtime does with `POST /v1/runs`."""

import asyncio
from enum import StrEnum
from typing import Annotated

import typer

from runtime.cli.connecting import JsonOption
from runtime.cli.errors import CommandError
from runtime.cli.output import print_json
from runtime.cli.service import ApiOption, ServiceTokenOption, StackOption, find_service
from runtime.demo.client import AgentApi, ApiProblem, RunOpened, agent_client

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Runs of agents.")

CustomerOption = Annotated[str, typer.Option("--customer", help="Whose data and money the run is about")]
ToolOption = Annotated[list[str], typer.Option("--tool", help="A tool that it may use; repeatable")]
AgentOption = Annotated[str, typer.Option("--agent", help="Which agent it is")]
ActorOption = Annotated[str, typer.Option("--actor", help="On whose behalf it acts")]


class Interface(StrEnum):
    MCP = "mcp"
    V1 = "v1"


@app.callback(epilog="Example: counterseal runs open --customer cus_DemoAda00001 --tool issue_refund")
def _runs() -> None:  # pyright: ignore[reportUnusedFunction]
    """A group, whatever the number of its commands."""


@app.command(name="open", epilog="Example: counterseal runs open --customer cus_DemoAda00001 --tool issue_refund")
def open_(
    customer: CustomerOption,
    tool: ToolOption,
    agent: AgentOption = "local-agent",
    actor: ActorOption = "local-user",
    expires_in_seconds: Annotated[int, typer.Option(min=60, max=86_400, help="How long its token is good")] = 3600,
    only: Annotated[
        Interface | None, typer.Option(help="The one interface that its token is good at", show_default="both")
    ] = None,
    data: StackOption = None,
    api: ApiOption = None,
    service_token: ServiceTokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a run and print its token, this once. What it is bound to here, no call of its agent can change."""
    url, token = find_service(data, api, service_token)
    opened = open_run(
        url, token, customer=customer, tools=tool, agent=agent, actor=actor, seconds=expires_in_seconds, only=only
    )
    if as_json:
        print_json(opened.model_dump())
        return
    typer.echo(f"{opened.run_id} until {opened.expires_at}; its token is shown this once:", err=True)
    typer.echo(opened.run_token)


def open_run(
    url: str,
    service_token: str,
    *,
    customer: str,
    tools: list[str],
    agent: str,
    actor: str,
    seconds: int,
    only: str | None,
) -> RunOpened:
    """Raises CommandError."""

    async def work() -> RunOpened:
        async with agent_client(url) as http:
            service = AgentApi(http, service_token)
            return await service.open(
                agent_id=agent,
                actor_id=actor,
                customer_id=customer,
                tools=tools,
                expires_in_seconds=seconds,
                resource=None if only is None else await service.resource_of(only),
            )

    try:
        return asyncio.run(work())
    except ApiProblem as problem:
        raise CommandError(str(problem)) from None
