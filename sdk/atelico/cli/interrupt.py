"""Ctrl-C while an answer is made: the first one cancels the answer, the second one the program."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from atelico.job import Job


@dataclass
class Interrupt:
    """Whether Ctrl-C was pressed."""

    pressed: bool = False


@contextlib.contextmanager
def cancelled_by_ctrl_c(job: Job) -> Iterator[Interrupt]:
    """Inside, Ctrl-C cancels `job`, so that the answer so far comes back; pressed again it is a KeyboardInterrupt."""
    interrupt = Interrupt()

    def cancel(_signal: int, _frame: FrameType | None) -> None:
        interrupt.pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # The handler runs between two bytecodes of this thread, which may hold the job's lock; another may wait for it.
        threading.Thread(target=job.cancel, name="atelico-cancel", daemon=True).start()

    before = signal.signal(signal.SIGINT, cancel)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
