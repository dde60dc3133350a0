"""Reports how far models are, for the names a game asks about. Loads nothing."""

from __future__ import annotations

import logging

from atelico.cabi.mailbox import Loading, Mailbox
from atelico.engine import Engine
from atelico.errors import AtelicoError, InternalError

logger = logging.getLogger(__name__)

_LOADING = {"loading": Loading.LOADING, "ready": Loading.READY}


class ModelReports:
    """The names of one engine and what was last said about each. Used by one thread."""

    def __init__(self, handle: int, engine: Engine, mailbox: Mailbox) -> None:
        self._handle, self._engine, self._mailbox = handle, engine, mailbox
        self._tickets: dict[str, int] = {}
        self._said: dict[str, tuple[int, int, float, str]] = {}

    def watch(self, name: str, ticket: int) -> None:
        """Report on `name` from now on; `ticket` tells the mailbox which of its questions that answers."""
        self._tickets[name] = max(ticket, self._tickets.get(name, 0))

    def report(self) -> None:
        """Say what has changed."""
        for name, ticket in self._tickets.items():
            state, progress, message = self._state_of(name)
            if self._said.get(name) != (ticket, state, progress, message):
                self._said[name] = (ticket, state, progress, message)
                self._mailbox.set_model(self._handle, name, ticket, state, progress, message)

    def _state_of(self, name: str) -> tuple[int, float, str]:
        try:
            found = self._engine.model_state(name)
        except AtelicoError as error:
            return error.c_result, 0.0, str(error)
        except Exception as error:
            logger.exception("a defect hides the state of %s", name)
            return InternalError.c_result, 0.0, f"The state of {name} is unknown for a defect of atelico: {error}."
        if found.state == "failed":
            cause = found.error or InternalError(f"Loading {name} failed.")
            return cause.c_result, 0.0, str(cause)
        loading = _LOADING.get(found.state or "", Loading.NOT_LOADED)
        return loading, 1.0 if loading == Loading.READY else found.progress, ""
