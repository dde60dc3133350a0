"""Job: one running request as its caller sees it. The only object that crosses threads.

The decode side pushes deltas and exactly one ending; the caller iterates, waits or cancels from any thread.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from atelico.errors import AtelicoError
from atelico.protocol import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatRequest,
    ChunkChoice,
    Delta,
    FinishReason,
    Logprobs,
    TokenLogprob,
    Usage,
)


@dataclass(frozen=True)
class TextEvent:
    """New text of one choice, with the log-probabilities of the tokens it completes where they were asked for."""

    choice: int
    content: str
    reasoning: str
    logprobs: list[TokenLogprob] | None = None
    usage: Usage | None = None


@dataclass(frozen=True)
class FinishEvent:
    """One choice has ended; log-probabilities of its last tokens may still come with it."""

    choice: int
    finish_reason: FinishReason
    logprobs: list[TokenLogprob] | None = None


_Ending = ChatCompletion | AtelicoError


class Job:
    """A submitted request.

    Attributes:
        id: the response's id.
        request: what was asked.
        submitted_at: `time.perf_counter()` of the submission.
    """

    def __init__(self, request: ChatRequest, *, on_cancel: Callable[[Job], None] | None = None) -> None:
        """`on_cancel` ends a job that is cancelled before it has started; it is called on the cancelling thread."""
        self.request = request
        self.id = f"chatcmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.submitted_at = time.perf_counter()
        self._on_cancel = on_cancel
        self._events: queue.SimpleQueue[TextEvent | FinishEvent | _Ending] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._ending: _Ending | None = None
        self._cancelled = False
        self._started = False

    # --- the caller's side ------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop as soon as possible: the answer so far is returned with finish_reason "cancelled".

        Safe from any thread, at any time and repeatedly; without effect on a job that has ended.
        """
        with self._lock:
            if self._cancelled or self._ending is not None:
                return
            self._cancelled = True
            started = self._started
        if not started and self._on_cancel is not None:
            self._on_cancel(self)

    def result(self, timeout: float | None = None) -> ChatCompletion:
        """Wait for the whole answer.

        Args:
            timeout: seconds to wait at most; None waits for ever.

        Raises:
            TimeoutError: no answer yet; the job goes on.
            AtelicoError: the request failed.
        """
        if not self._ended.wait(timeout):
            raise TimeoutError(f"No answer within {timeout} seconds.")
        assert self._ending is not None
        if isinstance(self._ending, AtelicoError):
            raise self._ending
        return self._ending

    def chunks(self) -> Iterator[ChatCompletionChunk]:
        """The answer as it is made, in OpenAI's chunks; to be iterated once.

        The first chunk of a choice has its role, the last its finish reason. The last chunk of all has `atelico`, and
        the usage where `stream_options.include_usage` asked for it. Abandoning the iteration cancels the job.

        Raises:
            AtelicoError: the request failed.
        """
        # A finished choice waits for the next event: the last chunk of all must carry `atelico`.
        finished: ChatCompletionChunk | None = None
        started: set[int] = set()
        try:
            while True:
                event = self._events.get()
                if isinstance(event, AtelicoError):
                    raise event
                if finished is not None and not isinstance(event, ChatCompletion):
                    yield finished
                    finished = None
                if isinstance(event, ChatCompletion):
                    yield from self._last_chunks(event, finished, started)
                    return
                if event.choice not in started:
                    started.add(event.choice)
                    yield self._chunk(event.choice, Delta(role="assistant", content=""))
                if isinstance(event, TextEvent):
                    delta = Delta(content=event.content or None, reasoning_content=event.reasoning or None)
                    yield self._chunk(event.choice, delta, logprobs=event.logprobs, usage=event.usage)
                else:
                    finished = self._chunk(
                        event.choice, Delta(), finish_reason=event.finish_reason, logprobs=event.logprobs
                    )
        finally:
            self.cancel()

    def _chunk(
        self,
        choice: int,
        delta: Delta,
        *,
        finish_reason: FinishReason | None = None,
        logprobs: list[TokenLogprob] | None = None,
        usage: Usage | None = None,
    ) -> ChatCompletionChunk:
        return ChatCompletionChunk(
            id=self.id,
            created=self.created,
            model=self.request.model,
            choices=[
                ChunkChoice(
                    index=choice,
                    delta=delta,
                    finish_reason=finish_reason,
                    logprobs=Logprobs(content=logprobs) if logprobs else None,
                )
            ],
            usage=usage,
        )

    def _last_chunks(
        self, completion: ChatCompletion, finished: ChatCompletionChunk | None, started: set[int]
    ) -> Iterator[ChatCompletionChunk]:
        chunks = [finished] if finished else []
        for choice in completion.choices:
            if choice.index not in started:  # cancelled before it had any text
                chunks.append(self._chunk(choice.index, Delta(role="assistant", content="")))
                chunks.append(self._chunk(choice.index, Delta(), finish_reason=choice.finish_reason))
        options = self.request.stream_options
        if options is not None and options.include_usage:
            # Only on request: clients that index choices[0] break on a chunk without choices.
            chunks.append(self._chunk(0, Delta(), usage=completion.usage))
            chunks[-1].choices = []
        chunks[-1].atelico = completion.atelico
        yield from chunks

    # --- the decode side --------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the caller asked to stop."""
        return self._cancelled

    @property
    def ended(self) -> bool:
        """Whether there is an answer or an error."""
        return self._ending is not None

    def start(self) -> bool:
        """Work on the job begins. False when it was cancelled before; it has its ending then."""
        with self._lock:
            self._started = not self._cancelled
            return self._started

    def push(self, event: TextEvent | FinishEvent) -> None:
        """Hand the caller a delta."""
        self._events.put(event)

    def end(self, ending: ChatCompletion | AtelicoError) -> bool:
        """The one ending; later ones are ignored. Returns whether this one counted."""
        with self._lock:
            if self._ending is not None:
                return False
            self._ending = ending
        self._events.put(ending)
        self._ended.set()
        return True
