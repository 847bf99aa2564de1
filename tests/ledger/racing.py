"""A process that sends refunds of one run at once: `python -m tests.ledger.racing URL TENANT RUN FIRST COUNT`.

Prints how many ended with which code. Each amount is another, so that none is a likely duplicate.
"""

import asyncio
import json
import sys
from collections import Counter

from tests.ledger.refunds import Refund, new_binding, open_ledger


async def _main(url: str, tenant: str, run_id: str, first: str, count: str) -> None:
    binding = new_binding(tenant=tenant, run_id=run_id, customer_id="cus_1")
    async with open_ledger(url) as ledger:
        refunds = [Refund(int(first) + n, binding=binding) for n in range(int(count))]
        records = await asyncio.gather(*(each.admit(ledger) for each in refunds))
    sys.stdout.write(json.dumps(Counter(record.code for record in records)))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
