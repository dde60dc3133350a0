"""What is said beside an answer: errors and notes for people, on stderr, one line each."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.text import Text

from atelico.errors import AtelicoError

# The exit code of a program that Ctrl-C ended (128 + SIGINT).
INTERRUPTED = 130


def note(text: str, style: str = "dim") -> None:
    """A line for the person at the terminal; stdout stays the answer's."""
    # Made at every call: tests and terminals exchange sys.stderr.
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text(" ".join(text.split()), style=style))


def show_error(error: AtelicoError) -> None:
    """The message of `error` with its hint."""
    note(f"atelico: {error}", style="red")


@contextlib.contextmanager
def errors_for_people() -> Iterator[None]:
    """An AtelicoError inside becomes one line on stderr and exit code 1; a traceback would help nobody."""
    try:
        yield
    except AtelicoError as error:
        sys.stdout.flush()
        show_error(error)
        raise typer.Exit(1) from None
