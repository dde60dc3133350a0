"""ServerState: the engine with what a server adds to it: running jobs, numbers, and a stop that lets them finish."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from atelico.embedding.texts import EmbeddedTexts
from atelico.engine import Engine
from atelico.errors import ShuttingDownError
from atelico.job import Job
from atelico.protocol.request import ChatRequest
from atelico.remote.options import remote_alias
from atelico.server.bridge import Cancellable
from atelico.server.metrics import Metrics
from atelico.server.options import ServerOptions

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Looking a model up reads folders, and parsing a large body takes a while: neither may stop the loop.
_N_HELPERS = 2


@dataclass(frozen=True)
class Submitted:
    """A job with the name its numbers are counted under: the model's own, however the request spelled it."""

    job: Job
    model: str


class ServerState:
    """Owned by the event loop; one per app."""

    def __init__(self, engine: Engine, options: ServerOptions) -> None:
        self.engine = engine
        self.options = options
        self.metrics = Metrics(engine)
        self.stopping = False
        self._jobs: set[Job] = set()
        self._embeddings: set[Future[EmbeddedTexts]] = set()
        self._helpers = ThreadPoolExecutor(_N_HELPERS, thread_name_prefix="atelico-http")

    async def off_loop(self, function: Callable[[], T]) -> T:
        """The result of `function`, which may read files, computed beside the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._helpers, function)

    async def submit(self, request: ChatRequest, prompt: str | None = None) -> Submitted:
        """Start a request.

        Raises:
            ShuttingDownError: the server is stopping.
            AtelicoError: see Engine.submit.
        """
        self.refuse_when_stopping()

        def start() -> Submitted:
            alias = remote_alias(request.model, self.engine.config.aliases)
            model = self.engine.resolve(request.model).name if alias is None else f"remote::{alias}"
            return Submitted(self.engine.submit(request, prompt=prompt), model)

        submitted = await self.off_loop(start)
        self._jobs = {job for job in self._jobs if not job.ended}
        self._jobs.add(submitted.job)
        return submitted

    async def embed(self, model: str, texts: str | list[str]) -> tuple[Future[EmbeddedTexts], str]:
        """Start embedding `texts`; also returns the model's own name.

        Raises:
            ShuttingDownError: the server is stopping.
            AtelicoError: see Engine.submit_texts.
        """
        self.refuse_when_stopping()
        name = await self.off_loop(lambda: self.engine.resolve(model).name)
        future = await self.off_loop(lambda: self.engine.submit_texts(model, texts))
        self._embeddings = {known for known in self._embeddings if not known.done()}
        self._embeddings.add(future)
        return future, name

    def refuse_when_stopping(self) -> None:
        """Raises ShuttingDownError once the server is stopping."""
        if self.stopping:
            raise ShuttingDownError("The server is stopping.", hint="Send the request again later.")

    async def stop(self) -> None:
        """Take no more requests; cancel the ones that still run after `grace_s`, which end with what they have."""
        self.stopping = True
        await asyncio.sleep(self.options.grace_s)
        running: list[Cancellable] = [
            *(job for job in self._jobs if not job.ended),
            *(future for future in self._embeddings if not future.done()),
        ]
        if running:
            logger.warning("cancelling %d requests that still run", len(running))
        for request in running:
            request.cancel()

    def close(self) -> None:
        """Free the helpers; the engine is its maker's to close."""
        self._helpers.shutdown(wait=False, cancel_futures=True)
