"""`ToolCall` as nobody may write it. In a module of its own, since the sandbox loads it anew."""

import time
from typing import Any

from temporalio import workflow


@workflow.defn(name="ToolCall")
class AsksTheClock:
    """What it does depends on when it runs."""

    @workflow.run
    async def run(self, *given: Any) -> None:
        if time.time() > 0:
            await workflow.sleep(1)
