"""How many threads decode: enough to be fast, one core left for the game's renderer."""

from __future__ import annotations

import os

import psutil


def default_threads() -> int:
    """Physical cores this process may use, minus one, at least one.

    Hyper-threads share the vector units that decoding saturates, so they do not count.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    physical = psutil.cpu_count(logical=False) or usable
    return max(1, min(physical, usable) - 1)
