"""A process in which a person opens approvals: `python -m tests.ledger.viewing URL TENANT VIEWER APPROVAL …`."""

import asyncio
import sys

from tests.ledger.refunds import open_ledger


async def _main(url: str, tenant: str, viewer: str, *approval_ids: str) -> None:
    async with open_ledger(url) as ledger:
        approvals = ledger.of(tenant).approvals

        async def view(approval_id: str) -> None:
            approval = await approvals.get(tenant, approval_id)
            assert approval is not None
            await approvals.viewed(approval, viewer)

        await asyncio.gather(*(view(each) for each in approval_ids))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
