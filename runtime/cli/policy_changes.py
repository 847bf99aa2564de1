"""`counterseal policy publish` and its like: putting a policy in force, by oneself or by several people."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from activities.policies import checked_stored, document_of, opened, terms_of_change
from api.changing import Changed, Changing
from api.deciding import Decider
from ledger.ledger import Ledger
from ledger.policies import PolicyConflict, Proposal, Published
from policy.in_force import PolicyUnusable
from policy.load import DEFAULT_POLICY
from policy.problems import PolicyError
from policy.table import Difference, differences
from runtime.cli.connecting import DataOption, whoami, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table
from runtime.cli.policy_reading import AsJson, PolicyPath, ToolsPath, load, load_catalog, plain, print_differences
from runtime.policy import PUBLISHED
from schemas.ids import is_proposal_id
from schemas.policies import Vote
from tools.catalog import Catalog

_MOST = 50
_EXAMPLE = "pol_0123456789abcdef0123456789abcdef --version default@3f1c0a9be21d"
app = typer.Typer()
Token = Annotated[
    str | None,
    typer.Option(
        envvar="COUNTERSEAL_TOKEN",
        help="Who you are: an approver's or operator's token. Better in the environment than on a command line",
        metavar="TOKEN",
    ),
]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the ledger", metavar="TEXT")]
ProposalId = Annotated[str, typer.Argument(help="pol_…, as `policy list` shows it")]
TenantOption = Annotated[
    str, typer.Option(envvar="COUNTERSEAL_TENANT", help="Whose people change policies; see the setting")
]


def register(group: typer.Typer) -> None:
    """Have these commands in a group."""
    group.registered_commands.extend(app.registered_commands)


@app.command(epilog="Example: counterseal policy publish policies/refunds.yaml")
def publish(
    file: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    recover: Annotated[
        bool, typer.Option("--recover", help="Take the place of what is in force and cannot be used")
    ] = False,
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Put a policy in force, signed, for all processes with COUNTERSEAL_POLICY=published. Where the one in force wants
    several people for that, it has to be proposed instead."""
    catalog = load_catalog(tools)
    if file == PUBLISHED:
        raise typer.BadParameter("name a file or folder; what is published is in force already", param_hint="FILE")
    policy = load(file, catalog, data)

    async def put(ledger: Ledger) -> int:
        number = await _may_publish(ledger, catalog, recover=recover)
        try:
            return (await ledger.policies.publish(document_of(policy), base=number, by=[whoami()])).number
        except PolicyConflict as problem:
            raise CommandError(str(problem)) from None

    number = with_ledger(data, put)
    if as_json:
        print_json({"version": policy.version, "number": number})
    else:
        console().print(f"{policy.version} is in force, as publication {number}.")


async def _may_publish(ledger: Ledger, catalog: Catalog, *, recover: bool) -> int:
    """In the place of which publication. Raises CommandError where it takes more people."""
    try:
        terms = await terms_of_change(ledger.policies, catalog)
    except PolicyUnusable as problem:
        if not recover:
            raise CommandError(f"what is in force cannot be used: {problem}; --recover takes its place") from None
        return await ledger.policies.number()
    if recover:
        raise CommandError("what is in force can be used, and is changed as it says")
    if terms.people > 1:
        raise CommandError(
            f"a change takes {terms.people} people of {terms.role}: counterseal policy propose, then policy agree"
        )
    return terms.number


@app.command(epilog='Example: counterseal policy propose policies/refunds.yaml --reason "raise the threshold"')
def propose(
    reason: Reason,
    token: Token = None,
    file: PolicyPath = DEFAULT_POLICY,
    tools: ToolsPath = None,
    tenant: TenantOption = "default",
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Propose a policy in the place of the one in force; whoever proposes it agrees to it."""
    catalog = load_catalog(tools)
    policy = load(file, catalog, data)
    _tell(
        _as_person(data, catalog, tenant, token, lambda on, who: on.propose_policy(who, policy, reason=reason)),
        as_json=as_json,
    )


@app.command(epilog=f"Example: counterseal policy agree {_EXAMPLE}")
def agree(
    proposal_id: ProposalId,
    version: Annotated[str, typer.Option(help="Which policy you agree to", metavar="NAME@DIGEST")],
    token: Token = None,
    tools: ToolsPath = None,
    tenant: TenantOption = "default",
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Agree to a policy that somebody else proposed; the last one whom it takes puts it in force."""
    _tell(_say(data, tools, tenant, token, proposal_id, version, "agree", ""), as_json=as_json)


@app.command(name="object", epilog=f'Example: counterseal policy object {_EXAMPLE} --reason "too much at once"')
def object_(
    proposal_id: ProposalId,
    version: Annotated[str, typer.Option(help="Which policy you object to", metavar="NAME@DIGEST")],
    reason: Reason,
    token: Token = None,
    tools: ToolsPath = None,
    tenant: TenantOption = "default",
    data: DataOption = None,
    as_json: AsJson = False,
) -> None:
    """Object to a proposed policy, which ends the proposal."""
    _tell(_say(data, tools, tenant, token, proposal_id, version, "object", reason), as_json=as_json)


@app.command(name="list", epilog="Example: counterseal policy list --json")
def list_(data: DataOption = None, as_json: AsJson = False) -> None:
    """List what was published, newest first, and what is proposed."""

    async def read(ledger: Ledger) -> tuple[list[Published], list[Proposal]]:
        return await ledger.policies.publications(_MOST), await ledger.policies.proposals(_MOST)

    published, proposals = with_ledger(data, read)
    if as_json:
        publications = [
            {"version": each.version, "published_at": each.at, "signed": each.publication is not None}
            | ({} if each.publication is None else each.publication.model_dump(include={"number", "people"}))
            for each in published
        ]
        print_json({"publications": publications, "proposals": [_plain(each) for each in proposals]})
        return
    shown = table("Version", "In force since", "By")
    for each in published:
        people = "NOT SIGNED by a key here" if each.publication is None else ", ".join(each.publication.people)
        shown.add_row(each.version, instant(each.at), people)
    console().print(shown if published else "Nothing was published.")
    if proposals:
        shown = table("Proposal", "Version", "Proposed at", "Status", "Agreed", "Reason")
        for each in proposals:
            agreed = ", ".join(said.username for said in each.votes if said.vote == "agree")
            shown.add_row(
                each.proposal_id, each.version, instant(each.proposed_at), each.status, agreed, Text(each.reason)
            )
        console().print(shown)


@app.command(epilog="Example: counterseal policy proposal pol_0123456789abcdef0123456789abcdef")
def proposal(
    proposal_id: ProposalId, tools: ToolsPath = None, data: DataOption = None, as_json: AsJson = False
) -> None:
    """Show a proposal: who agreed, and what it changes of what is in force."""
    catalog = load_catalog(tools)

    async def read(ledger: Ledger) -> tuple[Proposal | None, list[Difference]]:
        found = await ledger.policies.proposal(proposal_id) if is_proposal_id(proposal_id) else None
        if found is None:
            return None, []
        newest = await ledger.policies.in_force()
        before = None if newest is None else opened(newest, catalog).document
        return found, differences(before, checked_stored(found.source, found.version, catalog).document)

    try:
        found, changes = with_ledger(data, read)
    except (PolicyUnusable, PolicyError) as problem:
        raise CommandError(str(problem)) from None
    if found is None:
        raise CommandError(f"there is no proposal {proposal_id}")
    if as_json:
        print_json({**_plain(found), "differences": [plain(each) for each in changes]})
        return
    print_differences(f"{found.version}, {found.status}: {found.reason}", changes)
    for said in found.votes:
        console().print(Text(f"{said.username}: {said.vote}, {instant(said.at)} {said.reason}"))


def _say(
    data: Path | None,
    tools: Path | None,
    tenant: str,
    token: str | None,
    proposal_id: str,
    version: str,
    vote: Vote,
    reason: str,
) -> Changed:
    async def say(on: Changing, who: Decider) -> Changed:
        return await on.say(who, proposal_id, version, vote, reason=reason)

    return _as_person(data, load_catalog(tools), tenant, token, say)


def _as_person(
    data: Path | None,
    catalog: Catalog,
    tenant: str,
    token: str | None,
    work: Callable[[Changing, Decider], Awaitable[Changed]],
) -> Changed:
    async def run(ledger: Ledger) -> Changed:
        holder = None if token is None else await ledger.principals.authenticate(token)
        if holder is None or holder.kind not in ("approver", "operator"):
            raise CommandError("COUNTERSEAL_TOKEN is no live token of an approver or operator")
        return await work(Changing(ledger.policies, catalog, tenant), Decider.of(holder))

    return with_ledger(data, run)


def _tell(changed: Changed, *, as_json: bool) -> None:
    found = changed.proposal
    if found is None:
        raise CommandError(changed.because)
    if as_json:
        print_json(_plain(found))
    elif found.status == "in force":
        console().print(f"{found.version} is in force.")
    else:
        console().print(f"{found.proposal_id} proposes {found.version}: {found.status}.")


def _plain(proposal: Proposal) -> dict[str, object]:
    return {
        "proposal_id": proposal.proposal_id,
        "version": proposal.version,
        "status": proposal.status,
        "proposed_at": proposal.proposed_at,
        "reason": proposal.reason,
        "votes": [asdict(each) for each in proposal.votes],
    }
