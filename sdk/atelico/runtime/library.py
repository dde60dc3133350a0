"""llama.cpp itself: loaded once per process, its log sent to Python's logging, its traps known."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import logging
import threading
from collections.abc import Iterator

import llama_cpp

from atelico.runtime import kernels

logger = logging.getLogger(__name__)

_ERROR, _WARN, _CONTINUED = 3, 2, 5
_last_problems: collections.deque[str] = collections.deque(maxlen=8)
_log_lock = threading.Lock()


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    # llama.cpp's errors become ours with a hint, so its own words go to the debug log only.
    line = text.decode(errors="replace").rstrip()
    if not line:
        return
    if level in (_WARN, _ERROR):
        with _log_lock:
            _last_problems.append(line)
    logger.debug("%s", line)


@functools.cache
def initialise() -> None:
    """Start llama.cpp's backends; safe to call often. They are never stopped: other engines may still use them.

    Raises:
        ConfigError: this processor cannot run llama.cpp's kernels.
    """
    llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    kernels.own_tier()


@contextlib.contextmanager
def collected_problems() -> Iterator[list[str]]:
    """A list that holds, after the block, the warnings and errors llama.cpp printed meanwhile."""
    with _log_lock:
        _last_problems.clear()
    found: list[str] = []
    try:
        yield found
    finally:
        with _log_lock:
            found.extend(_last_problems)


def last_problem() -> str:
    """The latest warning or error of llama.cpp."""
    with _log_lock:
        return _last_problems[-1] if _last_problems else "llama.cpp gave no reason"


@functools.cache
def llama_version() -> str:
    """The version of llama.cpp that is loaded."""
    text: bytes = llama_cpp.llama_version()
    return text.decode(errors="replace")


@functools.cache
def system_info() -> str:
    """What llama.cpp was compiled with, in its own words."""
    text: bytes = llama_cpp.llama_print_system_info()
    return text.decode(errors="replace")


def has_amx() -> bool:
    """Whether this build uses AMX tiles, whose kernels die with an illegal instruction on some machines."""
    return "AMX_INT8 = 1" in system_info()
