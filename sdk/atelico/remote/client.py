"""Remotes: jobs answered by other servers. One thread with an event loop carries all of them; only Job leaves it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
from collections.abc import AsyncGenerator, Callable, Mapping

import httpx

from atelico.errors import AtelicoError, InternalError, InvalidRequestError, ModelNotFoundError, ShuttingDownError
from atelico.job import Job
from atelico.protocol.request import ChatRequest
from atelico.remote.collect import Collector
from atelico.remote.errors import TRANSIENT, RemoteTimeoutError, RemoteUnavailableError, refusal
from atelico.remote.options import RemoteOptions
from atelico.remote.translate import upstream_body
from atelico.remote.wire import Answer, decode_answer

logger = logging.getLogger(__name__)

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.25, 8.0
_MAX_ERROR_BYTES = 65_536

# Has a job answered by the local model of this name.
FallBack = Callable[[Job, str], None]


class Remotes:
    """The configured endpoints. Its thread starts with the first request and ends with `close`."""

    def __init__(self, endpoints: Mapping[str, RemoteOptions], fall_back: FallBack) -> None:
        self._endpoints = endpoints
        self._fall_back = fall_back
        self._loop = asyncio.new_event_loop()
        self._clients: dict[str, httpx.AsyncClient] = {}
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="atelico-remote", daemon=True)
        self._thread.start()

    def submit(self, alias: str, request: ChatRequest, prompt: str | None = None) -> Job:
        """Send a request on its way.

        Raises:
            ModelNotFoundError: no endpoint of this alias is configured.
            InvalidRequestError: it is a raw prompt, for which there is no common way.
            ShuttingDownError: closed.
        """
        options = self._endpoints.get(alias)
        if options is None:
            known = ", ".join(f"remote::{name}" for name in sorted(self._endpoints)) or "none"
            raise ModelNotFoundError(
                f"There is no remote endpoint {alias!r}.", hint=f"Configured: {known}.", param="model"
            )
        if prompt is not None:
            raise InvalidRequestError("Remote endpoints answer chats only, not raw prompts.", param="prompt")
        if self._closed:
            raise ShuttingDownError("The engine is closed.")
        job = Job(request, on_cancel=self._cancel)
        self._loop.call_soon_threadsafe(self._start, job, alias, options)
        return job

    def close(self, timeout: float | None = None) -> bool:
        """End every job in ShuttingDownError. False when the thread did not end within `timeout` seconds."""
        if not self._closed:
            self._closed = True
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # --- the loop's thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _start(self, job: Job, alias: str, options: RemoteOptions) -> None:
        if job.start():
            self._tasks[job] = task = self._loop.create_task(self._answer(job, alias, options))
            task.add_done_callback(lambda _: self._tasks.pop(job, None))

    def _cancel(self, job: Job) -> None:
        def cancel() -> None:
            task = self._tasks.get(job)
            if task is not None:
                task.cancel()
            elif not job.ended:
                job.end(Collector(job).cancelled())

        with contextlib.suppress(RuntimeError):  # closed: it has its ending
            self._loop.call_soon_threadsafe(cancel)

    async def _end(self) -> None:
        for job in list(self._tasks):
            job.end(ShuttingDownError("The engine was closed while the request ran."))
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
        self._loop.call_soon(self._loop.stop)

    async def _answer(self, job: Job, alias: str, options: RemoteOptions) -> None:
        collector = Collector(job)
        try:
            await self._attempt_until_answered(collector, alias, options)
        except asyncio.CancelledError:
            job.end(collector.cancelled())
        except TRANSIENT as error:
            if not options.fallback or collector.n_events:
                job.end(error)
                return
            logger.warning("%s: %s answers instead", error, options.fallback)
            job.warn(f"remote::{alias} did not answer; {options.fallback} did.")
            # Finding the model reads folders.
            await asyncio.shield(self._loop.run_in_executor(None, self._hand_over, job, options.fallback))
        except AtelicoError as error:
            job.end(error)
        except Exception:
            logger.exception("a defect ended remote request %s", job.id)
            job.end(InternalError("The remote request failed for a defect of atelico; see the log."))

    def _hand_over(self, job: Job, model: str) -> None:
        try:
            self._fall_back(job, model)
        except AtelicoError as error:
            job.end(error)

    async def _attempt_until_answered(self, collector: Collector, alias: str, options: RemoteOptions) -> None:
        body = upstream_body(collector.job.request, alias, options)
        try:
            async with asyncio.timeout(options.timeout_s):
                for attempt in range(options.retries + 1):
                    try:
                        answers = self._answers(collector.job.request, body, alias, options)
                        async with contextlib.aclosing(answers):
                            async for answer in answers:
                                collector.take(answer)
                        collector.job.end(collector.whole())
                        return
                    except TRANSIENT as error:
                        if collector.n_events or attempt == options.retries:
                            raise
                        wait_s = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S) * random.uniform(0.75, 1.25)
                        logger.info("%s Attempt %d follows in %.2f s.", error, attempt + 2, wait_s)
                        await asyncio.sleep(wait_s)
        except TimeoutError:
            raise RemoteTimeoutError(
                f"remote::{alias} gave no whole answer within {options.timeout_s:g} seconds."
            ) from None

    async def _answers(
        self, request: ChatRequest, body: bytes, alias: str, options: RemoteOptions
    ) -> AsyncGenerator[Answer, None]:
        """The chunks of a streamed answer, or the whole one."""
        url = options.url.rstrip("/") + "/chat/completions"
        try:
            async with self._client(alias, options).stream("POST", url, content=body) as response:
                if response.status_code != 200:
                    raise refusal(alias, response.status_code, await _beginning(response))
                if not request.stream:
                    yield decode_answer(await response.aread(), alias)
                    return
                async for data in _event_data(response):
                    answer = decode_answer(data, alias)
                    if answer.error is not None:
                        raise refusal(alias, 500, data.encode())
                    yield answer
        except httpx.TimeoutException:
            raise RemoteTimeoutError(f"remote::{alias} ({options.url}) does not answer.") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RemoteUnavailableError(
                f"remote::{alias} ({options.url}) cannot be reached: {str(error) or type(error).__name__}.",
                hint="Check that it runs and its url.",
            ) from None

    def _client(self, alias: str, options: RemoteOptions) -> httpx.AsyncClient:
        client = self._clients.get(alias)
        if client is None:
            headers = {"content-type": "application/json", "user-agent": "atelico", **options.headers}
            if key := options.key():
                headers["authorization"] = f"Bearer {key}"
            # The whole answer's limit is ours; a read may wait for a long prompt.
            timeout = httpx.Timeout(options.timeout_s, connect=options.connect_timeout_s)
            client = self._clients[alias] = httpx.AsyncClient(headers=headers, timeout=timeout)
        return client


async def _beginning(response: httpx.Response) -> bytes:
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) >= _MAX_ERROR_BYTES:
            break
    return body


async def _event_data(response: httpx.Response) -> AsyncGenerator[str, None]:
    """The data of each server-sent event, up to [DONE]."""
    lines: list[str] = []
    async for line in response.aiter_lines():
        if line.startswith("data:"):
            lines.append(line[5:].removeprefix(" "))
        elif not line and lines:
            data, lines = "\n".join(lines), []
            if data.strip() == "[DONE]":
                return
            yield data
    if lines and (data := "\n".join(lines)).strip() != "[DONE]":
        yield data
