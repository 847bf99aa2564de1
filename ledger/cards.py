"""What a person is shown of an approval, as it is kept."""

from typing import Any

import asyncpg

from ledger.data_keys import DataKeys
from ledger.database import Connection
from ledger.keys import DataKey
from ledger.measures import words_to_read
from ledger.people import names_of
from ledger.queries import load
from schemas.canonical import canonical
from schemas.decisions import Approval
from schemas.effects import AlertKind

_SQL = load("calls")

FLOOD = 50
"""More calls of one agent than this that wait at once are more than people can read."""
_FLOOD_ALERT: AlertKind = "agent_flood"


def card_context(tenant: str, approval_id: str) -> bytes:
    return canonical([tenant, approval_id, "card"])


def order_index(keys: DataKeys, tenant: str, order_id: str) -> str:
    """What an order is found by: a keyed fingerprint, which says nothing of it, behind the master key's id."""
    return order_indexes(keys, tenant, order_id)[0]


def order_indexes(keys: DataKeys, tenant: str, order_id: str) -> list[str]:
    """What it is found by now, and what it may have been before: under former master keys, and without an id."""
    found = keys.fingerprints(canonical([tenant, "order", order_id]))
    return [f"{key_id}:{each}" for key_id, each in found.items()] + list(found.values())


def open_card(row: asyncpg.Record, key: DataKey) -> Approval:
    """A row of `approvals`, decrypted, without its decisions."""
    card = Approval.model_validate_json(key.open(row["card"], card_context(row["tenant"], row["approval_id"])))
    # The deadline moves when a switch pauses it, or a person gives it more time.
    return card.model_copy(update={name: row[name] for name in ("status", "closed_at", "expires_at")})


def erased_card(row: asyncpg.Record) -> Approval:
    """What is left of a row of `approvals` whose customer was erased: what stands in the clear."""
    names = ("approval_id", "request_id", "tenant", "tool", "rule", "policy_version", "action_digest", "status")
    more = (
        "approvers",
        "escalates_to",
        "escalates_at",
        "requested_at",
        "expires_at",
        "closed_at",
        "amount",
        "currency",
    )
    return Approval(
        **{name: row[name] for name in (*names, *more)},
        tool_version="",
        title="Erased",
        arguments={},
        facts={},
        facts_at=row["requested_at"],
        rules=(row["rule"],),
        because="",
        untrusted={},
        agent_id=row["agent_id"] or "",
        actor_id="",
        customer_id=row["customer_id"] or "",
        run_id="",
    )


def plain_columns(approval: Approval, keys: DataKeys) -> dict[str, Any]:
    """The plain columns of an approval as it was asked, in the order in which statements take them."""
    order = order_of(approval)
    return {
        "approval_id": approval.approval_id,
        "request_id": approval.request_id,
        "tenant": approval.tenant,
        "tool": approval.tool,
        "approvers": approval.approvers,
        "rule": approval.rule,
        "policy_version": approval.policy_version,
        "action_digest": approval.action_digest,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "words": words_to_read(approval),
        "escalates_to": approval.escalates_to,
        "escalates_at": approval.escalates_at,
        "agent_id": approval.agent_id,
        "requesters": sorted(names_of(approval.agent_id, approval.actor_id, approval.owner)),
        "amount": approval.amount,
        "currency": approval.currency,
        "order_index": None if order is None else order_index(keys, approval.tenant, order),
        "customer_id": approval.customer_id,
    }


async def insert_approval(connection: Connection, approval: Approval, key: DataKey, keys: DataKeys) -> None:
    """Let it wait for people, who are told. `key` seals what they are shown."""
    await connection.execute(
        _SQL["insert_approval"],
        *plain_columns(approval, keys).values(),
        key.key_id,
        key.seal(approval.model_dump_json().encode(), card_context(approval.tenant, approval.approval_id)),
        FLOOD,
        _FLOOD_ALERT,
    )


def order_of(approval: Approval) -> str | None:
    """The order that it is about: as the order system says, else as it was asked for."""
    order = approval.facts.get("order")
    for holder in (order, approval.arguments):
        if isinstance(holder, dict) and isinstance(found := holder.get("order_id"), str):
            return found
    return None
