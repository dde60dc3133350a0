"""Job: one running request as its caller sees it. The only object that crosses threads.

The decode side pushes deltas and exactly one ending; the caller iterates, waits or cancels from any thread.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator

from atelico.errors import AtelicoError
from atelico.events import ChunkStream, FinishEvent, TextEvent
from atelico.protocol.request import ChatRequest
from atelico.protocol.response import ChatCompletion, ChatCompletionChunk

__all__ = ["FinishEvent", "Job", "TextEvent"]

logger = logging.getLogger(__name__)


_Ending = ChatCompletion | AtelicoError


class Job:
    """A submitted request.

    Attributes:
        id: the response's id.
        request: what was asked.
        prompt: a text to go on with as it is, in place of the request's messages; None for a chat.
        submitted_at: `time.perf_counter()` of the submission.
    """

    def __init__(
        self, request: ChatRequest, *, prompt: str | None = None, on_cancel: Callable[[Job], None] | None = None
    ) -> None:
        """`on_cancel` is called once, on the cancelling thread; it must end a job that has not started."""
        self.request = request
        self.prompt = prompt
        self.warnings: list[str] = []
        self.id = f"chatcmpl-{uuid.uuid4().hex}"
        self.created = int(time.time())
        self.submitted_at = time.perf_counter()
        self._on_cancel = on_cancel
        self._on_event: Callable[[], None] | None = None
        self._stream = ChunkStream(self.id, self.created, request)
        self._events: queue.SimpleQueue[TextEvent | FinishEvent | _Ending] = queue.SimpleQueue()
        self._lock = threading.RLock()  # a stream dropped by the garbage collector cancels inside it
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
        if self._on_cancel is not None:
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
        """The answer as it is made, in OpenAI's chunks (see ChunkStream); to be iterated once. Waits for each chunk.

        Abandoning the iteration cancels the job.

        Raises:
            AtelicoError: the request failed.
        """
        try:
            while not self._stream.ended:
                yield from self._chunks_of(self._events.get())
        finally:
            self.cancel()

    def ready_chunks(self) -> list[ChatCompletionChunk]:
        """The chunks that can be had without waiting, for callers that must not block; see `subscribe`.

        Raises:
            AtelicoError: the request failed.
        """
        chunks: list[ChatCompletionChunk] = []
        while not self._stream.ended:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                break
            if isinstance(event, AtelicoError) and chunks:
                self._events.put(event)  # what came before it is delivered first
                break
            chunks += self._chunks_of(event)
        return chunks

    @property
    def all_read(self) -> bool:
        """Whether the last chunk has been given out."""
        return self._stream.ended

    def subscribe(self, on_event: Callable[[], None]) -> None:
        """Have `on_event` called after every event, and once now. It runs on the thread that decodes, so it must
        return at once: set a flag, wake a loop."""
        self._on_event = on_event
        on_event()

    def _chunks_of(self, event: TextEvent | FinishEvent | _Ending) -> list[ChatCompletionChunk]:
        if isinstance(event, AtelicoError):
            raise event
        return self._stream.feed(event)

    # --- the answering side --------------------------------------------------------------------------------------

    @property
    def cancelled(self) -> bool:
        """Whether the caller asked to stop."""
        return self._cancelled

    @property
    def started(self) -> bool:
        """Whether work on the job has begun."""
        return self._started

    @property
    def ended(self) -> bool:
        """Whether there is an answer or an error."""
        return self._ending is not None

    def start(self) -> bool:
        """Work on the job begins. False when it was cancelled before; it has its ending then."""
        with self._lock:
            self._started = not self._cancelled
            return self._started

    def redirect(self, request: ChatRequest, on_cancel: Callable[[Job], None]) -> bool:
        """Somebody else answers from now on, a changed request, before there has been any event. False when the job
        was cancelled: nothing changes then."""
        with self._lock:
            if self._cancelled:
                return False
            self.request = self._stream.request = request
            self._on_cancel = on_cancel
            self._started = False
            return True

    def warn(self, warning: str) -> None:
        """Add a warning for the response."""
        self.warnings.append(warning)

    def push(self, event: TextEvent | FinishEvent) -> None:
        """Hand the caller a delta."""
        self._events.put(event)
        self._notify()

    def end(self, ending: ChatCompletion | AtelicoError) -> bool:
        """The one ending; later ones are ignored. Returns whether this one counted."""
        with self._lock:
            if self._ending is not None:
                return False
            self._ending = ending
        self._events.put(ending)
        self._ended.set()
        self._notify()
        return True

    def _notify(self) -> None:
        on_event = self._on_event
        if on_event is not None:
            try:
                on_event()
            except Exception:  # whoever listens must not hurt those who decode
                logger.exception("a subscriber of request %s failed", self.id)
