"""What a person is shown of an approval, as it is kept."""

from ledger.database import Connection
from ledger.keys import DataKey
from ledger.measures import words_to_read
from ledger.queries import load
from schemas.canonical import canonical
from schemas.decisions import Approval

_SQL = load("calls")


def card_context(tenant: str, approval_id: str) -> bytes:
    return canonical([tenant, approval_id, "card"])


async def insert_approval(connection: Connection, approval: Approval, key: DataKey) -> None:
    await connection.execute(
        _SQL["insert_approval"],
        approval.approval_id,
        approval.request_id,
        approval.tenant,
        approval.tool,
        approval.approvers,
        approval.rule,
        approval.policy_version,
        approval.action_digest,
        approval.requested_at,
        approval.expires_at,
        key.key_id,
        key.seal(approval.model_dump_json().encode(), card_context(approval.tenant, approval.approval_id)),
        words_to_read(approval),
        approval.escalates_to,
        approval.escalates_at,
    )
