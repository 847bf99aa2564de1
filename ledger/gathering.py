"""One statement for all who ask at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Gathered(Generic[K, V]):
    """Answers many questions with one statement: while one is under way, the questions that come are gathered for the
    next. So a question is answered by a statement that began after it was asked, and one that comes alone waits for
    nothing.
    """

    def __init__(self, answer: Callable[[Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        """`answer` gives an answer for each of the questions, in their order."""
        self._answer = answer
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: K) -> V:
        """Raises what `answer` raises, to everyone whose question it had; CancelledError where that was stopped."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            asked, self._waiting = self._waiting, []
            try:
                answers = await self._answer([question for question, _ in asked])
                answered = list(zip(asked, answers, strict=True))
            except Exception as problem:  # noqa: BLE001 - it is handed to everyone who asked
                for _, future in asked:
                    if not future.done():
                        future.set_exception(problem)
                continue
            except BaseException:
                # Nobody is left to answer: whoever waits does so no more.
                for _, future in [*asked, *self._waiting]:
                    future.cancel()
                self._waiting.clear()
                raise
            for (_, future), answer in answered:
                # Who was cancelled meanwhile wants none.
                if not future.done():
                    future.set_result(answer)
