"""The requests that a model has taken and not answered yet."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from atelico.errors import AtelicoError, BusyError, ShuttingDownError

T = TypeVar("T")


class OpenRequests(Generic[T]):
    """A queue that is also told of every request's end, so that none is lost. Safe to use from several threads.

    Attributes:
        closing: whether the model is being unloaded, so that nothing more is taken.
        error: why the model failed, which is then the answer to everything.
    """

    def __init__(self, model: str, limit: int, has_ended: Callable[[T], bool]) -> None:
        """`model`: its name, for errors. `limit`: requests that may be open at once."""
        self.closing = False
        self.error: AtelicoError | None = None
        self._model = model
        self._limit = limit
        self._has_ended = has_ended
        self._open: set[T] = set()
        self._queue: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def add(self, request: T) -> None:
        """Queue `request`.

        Raises:
            BusyError: too many are open.
            ShuttingDownError: the model is being unloaded.
            AtelicoError: the model has failed.
        """
        with self._lock:
            self._open = {known for known in self._open if not self._has_ended(known)}
            if self.closing:
                raise ShuttingDownError(f"The model {self._model} is being unloaded.")
            if self.error is not None:
                raise self.error
            if len(self._open) >= self._limit:
                raise BusyError(
                    f"{len(self._open)} requests are waiting for {self._model}, the most that may.",
                    hint="Wait for answers, or raise max_queue.",
                )
            self._open.add(request)
            self._queue.put(request)

    def next(self) -> T | None:
        """The next request, once there is one; None when no more will be served."""
        return self._queue.get()

    def has_next(self) -> bool:
        """Whether `next` would return at once."""
        return not self._queue.empty()

    def count(self) -> int:
        """Requests without an answer."""
        with self._lock:
            return sum(not self._has_ended(request) for request in self._open)

    def close(self) -> None:
        """Take no more, and wake whoever waits in `next`."""
        with self._lock:
            self.closing = True
        self._queue.put(None)

    def fail(self, error: AtelicoError) -> None:
        """The model has failed: take no more, and wake whoever waits in `next`."""
        with self._lock:
            self.error = error
        self._queue.put(None)

    def drain(self) -> set[T]:
        """The open requests, which are the caller's to end from now on."""
        with self._lock:
            requests, self._open = self._open, set()
        return requests
