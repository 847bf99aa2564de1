"""A process in which a person opens approvals: `python -m tests.ledger.viewing URL TENANT VIEWER APPROVAL …`."""

import asyncio
import sys

from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger


async def _main(url: str, tenant: str, viewer: str, *approval_ids: str) -> None:
    database = await connect(url)
    # The key of `tests.ledger.refunds`, without all that it imports.
    approvals = Ledger.over(database, MasterKey(bytes(range(32)))).of(tenant).approvals

    async def view(approval_id: str) -> None:
        approval = await approvals.get(tenant, approval_id)
        assert approval is not None
        await approvals.viewed(approval, viewer)

    await asyncio.gather(*(view(each) for each in approval_ids))
    await database.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
