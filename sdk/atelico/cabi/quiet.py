"""Keeps an interpreter that lives in a game from printing: its log goes to a file, or nowhere."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from types import TracebackType

logger = logging.getLogger(__name__)

ENV_LOG_FILE = "ATELICO_LOG_FILE"


def keep_quiet() -> None:
    """Send the log to the file that ATELICO_LOG_FILE names, if any, and everything Python would print to nowhere.

    Only for an interpreter that nobody else uses.
    """
    nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # lives as long as the process
    sys.stdout = sys.stderr = nowhere
    logging.lastResort = None
    logging.captureWarnings(True)
    threading.excepthook = _log_thread_exception
    sys.unraisablehook = _log_unraisable
    handler = _log_handler(os.environ.get(ENV_LOG_FILE, ""))
    root = logging.getLogger()
    root.addHandler(handler)
    if not isinstance(handler, logging.NullHandler):
        root.setLevel(logging.INFO)


def _log_handler(path: str) -> logging.Handler:
    if not path:
        return logging.NullHandler()
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError:  # a log that cannot be written is no reason for a game not to talk
        return logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler


def _log_thread_exception(caught: threading.ExceptHookArgs) -> None:
    value = caught.exc_value or caught.exc_type()
    trace: TracebackType | None = caught.exc_traceback
    logger.error("a thread ended in an exception", exc_info=(caught.exc_type, value, trace))


def _log_unraisable(caught: sys.UnraisableHookArgs) -> None:
    value = caught.exc_value or caught.exc_type()
    logger.error("an exception nobody could handle", exc_info=(caught.exc_type, value, caught.exc_traceback))
