"""The C mailbox as Python sees it: mail in, events out. Declares what ffi/cabi/host.h does; no decisions here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol


class Kind(IntEnum):
    """What a game has asked for: `host_mail_kind` of host.h."""

    CREATE = 1
    DESTROY = 2
    LOAD = 3
    WATCH = 4
    STREAM = 5
    COMPLETE = 6
    CANCEL = 7


class Loading(IntEnum):
    """How far a model is: `atelico_model_state_value` of atelico.h."""

    NOT_LOADED = 0
    LOADING = 1
    READY = 2


@dataclass(frozen=True)
class Mail:
    """One wish of a game.

    Attributes:
        engine, job: handles; 0 where there is none.
        ticket: of a LOAD or WATCH, to be handed back with the model's state.
        text: a configuration, a model's name or a request; UTF-8.
    """

    kind: Kind
    engine: int
    job: int
    ticket: int
    text: bytes


class Mailbox(Protocol):
    """Both directions. Safe from any thread; engines and jobs that were destroyed meanwhile are ignored."""

    def take(self) -> Mail:
        """Wait for the next mail."""
        ...

    def push(self, engine: int, job: int, event: bytes) -> bool:
        """Queue an event of a job. False where nobody wants it any more."""
        ...

    def end(self, engine: int, job: int, result: int = 0, event: bytes = b"", message: str = "") -> None:
        """A job has ended; with a negative `result` also its last event and a message for people."""
        ...

    def set_model(self, engine: int, name: str, ticket: int, state: int, progress: float, message: str) -> None:
        """How far a model is: a `Loading`, or the negative result of its failure with a message."""
        ...

    def fail_engine(self, engine: int, result: int, event: bytes, message: str) -> None:
        """An engine cannot be made: all its requests, now and later, end like this."""
        ...

    def closed(self, engine: int) -> None:
        """A DESTROY has been carried out."""
        ...

    def guard_exit(self) -> None:
        """From now on the process's exit waits until models have stopped. To be called again whenever llama.cpp may
        have brought up more that has exit code of its own."""
        ...


class CMailbox:
    """The Mailbox inside libatelico, through the module that cffi compiled into it (ffi/cabi/build.py).

    Every call gives up the GIL, so a waiting `take` stops nobody.
    """

    def __init__(self, ffi: Any, lib: Any) -> None:
        self._ffi, self._lib = ffi, lib

    def take(self) -> Mail:
        mail = self._ffi.new("struct host_mail *")
        self._lib.mailbox_take(mail)
        try:
            text = bytes(self._ffi.buffer(mail.text, mail.length))
            return Mail(Kind(mail.kind), mail.engine, mail.job, mail.ticket, text)
        finally:
            self._lib.mailbox_release(mail)

    def push(self, engine: int, job: int, event: bytes) -> bool:
        return bool(self._lib.mailbox_push(engine, job, event, len(event)))

    def end(self, engine: int, job: int, result: int = 0, event: bytes = b"", message: str = "") -> None:
        self._lib.mailbox_end(engine, job, result, event, len(event), _c_text(message))

    def set_model(self, engine: int, name: str, ticket: int, state: int, progress: float, message: str) -> None:
        self._lib.mailbox_set_model(engine, name.encode(), ticket, state, progress, _c_text(message))

    def fail_engine(self, engine: int, result: int, event: bytes, message: str) -> None:
        self._lib.mailbox_fail_engine(engine, result, event, len(event), _c_text(message))

    def closed(self, engine: int) -> None:
        self._lib.mailbox_closed(engine)

    def guard_exit(self) -> None:
        self._lib.mailbox_guard_exit()


def _c_text(text: str) -> bytes:
    """A message for C: it may quote a request, so it may hold what a C string or UTF-8 cannot."""
    return text.replace("\0", "\\0").encode(errors="replace")
