"""Entry point of the `atelico` command: global options and the list of commands, nothing else."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

import atelico
from atelico.cli.bundle import bundle
from atelico.cli.chat import chat
from atelico.cli.lib import lib
from atelico.cli.models import models
from atelico.cli.prefix import prefix
from atelico.cli.pull import pull
from atelico.cli.serve import serve

# Plain help and errors: a boxed error message can neither be searched nor copied.
app = typer.Typer(
    name="atelico",
    help="A small language model inside a game, from the command line.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(bundle)
app.command()(chat)
app.command()(models)
app.command()(pull)
app.command()(serve)
app.add_typer(lib)
app.add_typer(prefix)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"atelico {atelico.__version__}")
        raise typer.Exit()


@app.callback()
def options(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option(help="Configuration file (TOML) instead of the user's own.", metavar="FILE")
    ] = None,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Log to stderr; twice for everything.")
    ] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """A small language model inside a game, from the command line."""
    context.obj = config
    level = {0: logging.WARNING, 1: logging.INFO}.get(verbose, logging.DEBUG)
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows "?"; the answer goes on.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    app()
