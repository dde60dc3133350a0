"""How many threads decode: enough to be fast, one core left for the game's renderer."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

import psutil

# Just below the game's threads: on a core that both want, the game gets 55 % of it. A lower priority would starve
# decoding beside any program that burns a core, as 5 did (a third of the idle speed instead of two thirds).
_NICE = 1


def default_threads() -> int:
    """Physical cores this process may use, minus one, at least one.

    Hyper-threads share the vector units that decoding saturates, so they do not count.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    physical = psutil.cpu_count(logical=False) or usable
    return max(1, min(physical, usable) - 1)


def lower_priority() -> None:
    """Let other threads go before the calling one, and before the workers that OpenMP will start from it."""
    if sys.platform == "linux":  # elsewhere nice is a property of the process, which is the game's
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
