"""The interactive dialogue of `atelico chat`: lines in, answers out, the history between them."""

from __future__ import annotations

import contextlib
import sys

from atelico.cli.ask import AskOptions, opening, request_for
from atelico.cli.reply import stream_reply
from atelico.cli.report import note, show_error
from atelico.engine import Engine
from atelico.errors import AtelicoError, ContextOverflowError

with contextlib.suppress(ImportError):  # not on Windows
    import readline  # noqa: F401  # gives input() line editing and a history

_HELP = "/reset forgets the dialogue, /quit or Ctrl-D leaves, Ctrl-C stops an answer."


def run_dialogue(engine: Engine, options: AskOptions) -> None:
    """Talk until the input ends or /quit. A failed request is reported and leaves no trace in the history."""
    history = opening(options)
    note(_HELP)
    while (line := _read_line()) is not None:
        match line.strip():
            case "":
                continue
            case "/quit" | "/exit":
                return
            case "/reset":
                history = opening(options)
                note("The dialogue is forgotten.")
                continue
            case command if command.startswith("/"):
                note(_HELP)
                continue
        history.append({"role": "user", "content": line})
        try:
            reply = stream_reply(engine, request_for(options, history), options)
        except AtelicoError as error:
            show_error(error)
            if isinstance(error, ContextOverflowError):
                note("/reset starts a new dialogue.")
            history.pop()
            continue
        if reply.text:
            # Also half an answer: the reader has seen it, so the model should know it.
            history.append({"role": "assistant", "content": reply.text})
        else:
            history.pop()


def _read_line() -> str | None:
    """The next line; None at the end of the input."""
    while True:
        try:
            return input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return None
        except KeyboardInterrupt:
            note(_HELP)
