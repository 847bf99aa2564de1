"""People's passkeys: the public keys of their authenticators, and the nonces that challenges are made of."""

import base64
import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from ledger.assertions import BadAssertion, check_assertion
from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.queries import load
from ledger.streams import access_of, append, recorded
from schemas.decisions import HumanDecision
from schemas.events import PasskeyAdded, PasskeyRemoved

_SQL = load("passkeys")
NONCE_SECONDS = 300
ADDING = "add"
MOST = 20
"""How many one account may have."""


@dataclass(frozen=True, slots=True)
class Passkey:
    """`public_key` is a COSE_Key (RFC 9052)."""

    credential_id: bytes
    name: str
    public_key: bytes
    sign_count: int
    created_at: datetime
    used_at: datetime | None = None


def approving(approval_id: str) -> str:
    """What a nonce is for that an approval is made with."""
    return f"approve:{approval_id}"


class Passkeys:
    """Those of one tenant's people."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def of(self, tenant: str, username: str) -> list[Passkey]:
        return [Passkey(**row) for row in await self._pool.fetch(_SQL["passkeys_of"], tenant, username)]

    async def add(
        self, tenant: str, username: str, *, credential_id: bytes, name: str, public_key: bytes, sign_count: int
    ) -> bool:
        """Whether it was new: one authenticator's key belongs to one account."""
        async with recorded(self._pool, self._keys, tenant) as connection:
            made = await connection.fetchval(
                _SQL["add_passkey"], credential_id, tenant, username, name, public_key, sign_count
            )
            if made is True:
                event = PasskeyAdded(username=username, credential=_fingerprint(credential_id))
                await append(connection, self._keys, tenant, access_of(tenant), [event])
            return made is True

    async def remove(self, tenant: str, username: str, credential_id: bytes) -> bool:
        """Whether they had it."""
        async with recorded(self._pool, self._keys, tenant) as connection:
            removed = await connection.fetchval(_SQL["remove_passkey"], tenant, username, credential_id) is True
            if removed:
                event = PasskeyRemoved(username=username, credential=_fingerprint(credential_id))
                await append(connection, self._keys, tenant, access_of(tenant), [event])
            return removed

    async def new_nonce(self, tenant: str, username: str, purpose: str) -> str:
        """256 random bits in base64url, good once and for NONCE_SECONDS."""
        nonce = secrets.token_urlsafe(32)
        await self._pool.execute(_SQL["new_nonce"], nonce, tenant, username, purpose, float(NONCE_SECONDS))
        return nonce

    async def take_nonce(self, tenant: str, username: str, purpose: str, nonce: str) -> bool:
        """Whether it was made for them and for that, was not taken before, and is in time."""
        return await self._pool.fetchval(_SQL["take_nonce"], nonce, tenant, username, purpose) is True


def _fingerprint(credential_id: bytes) -> str:
    return hashlib.sha256(credential_id).hexdigest()


async def accept(connection: Connection, decision: HumanDecision) -> bool:
    """Whether the approver's own passkey signed this decision, by a nonce that is used up with it, in the transaction
    of `connection`. A count of signatures that did not go up is a copy's of the authenticator."""
    proof = decision.proof
    if proof is None or proof.assertion is None:
        return False
    assertion, whose = proof.assertion, (decision.tenant, decision.approver)
    taken = await connection.fetchval(_SQL["take_nonce"], assertion.nonce, *whose, approving(decision.approval_id))
    credential_id = from_base64url(assertion.credential_id)
    known = await connection.fetchrow(_SQL["lock_passkey"], *whose, credential_id)
    if taken is not True or known is None or known["public_key"] != from_base64url(assertion.public_key):
        return False
    try:
        count = check_assertion(decision, known["sign_count"])
    except BadAssertion:
        return False
    await connection.execute(_SQL["passkey_used"], decision.tenant, credential_id, count)
    return True


def from_base64url(text: str) -> bytes:
    """Without padding (RFC 4648, section 5)."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
