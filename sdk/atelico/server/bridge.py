"""Between jobs, which live on threads, and the event loop, which must never wait: waking, reading, cancelling."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from starlette.types import Receive

from atelico.job import Job
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk

T = TypeVar("T")


class Cancellable(Protocol):
    """A job, or a future."""

    def cancel(self) -> object:
        """End early; without effect on what has ended."""


class Wake:
    """An event of this loop that any thread may set."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake whoever waits, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has been closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self) -> None:
        """Sleep until `set` has been called since the last `wait`."""
        await self._event.wait()
        self._event.clear()


async def completion_of(job: Job) -> ChatCompletion:
    """The whole answer.

    Raises:
        AtelicoError: the request failed.
    """
    wake = Wake()
    job.subscribe(wake.set)
    while not job.ended:
        await wake.wait()
    return job.result(0)


async def chunks_of(job: Job) -> AsyncIterator[list[ChatCompletionChunk]]:
    """The answer as it is made; everything that is ready comes at once.

    Raises:
        AtelicoError: the request failed.
    """
    wake = Wake()
    job.subscribe(wake.set)
    while not job.all_read:
        await wake.wait()
        while chunks := job.ready_chunks():
            yield chunks


async def result_of(future: Future[T]) -> T:
    """The result of a future that another thread fills.

    Raises:
        concurrent.futures.CancelledError: it was cancelled. Unlike asyncio's, it does not end the task that waits.
        AtelicoError: the request failed.
    """
    wake = Wake()
    future.add_done_callback(lambda _future: wake.set())
    await wake.wait()
    return future.result(0)


@contextlib.asynccontextmanager
async def cancelled_early(jobs: Sequence[Cancellable], receive: Receive, timeout_s: float) -> AsyncIterator[None]:
    """Within the block `jobs` are cancelled when their client hangs up or `timeout_s` seconds have passed; after it in
    any case. A cancelled job ends within one forward pass, and its lane is free."""

    async def watch() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while (await receive())["type"] != "http.disconnect":
                    pass
        _cancel(jobs)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        _cancel(jobs)


def _cancel(jobs: Sequence[Cancellable]) -> None:
    for job in jobs:
        job.cancel()
