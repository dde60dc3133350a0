"""`atelico prefix`: prompts read ahead of time, as files that a game ships."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from atelico.cli.report import errors_for_people
from atelico.config import load_config
from atelico.engine import Engine

prefix = typer.Typer(
    name="prefix",
    help="Save prompts already read, for a game to ship; and check such files.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@prefix.command()
def save(
    context: typer.Context,
    out: Annotated[Path, typer.Argument(help="The file to write.", metavar="FILE")],
    model: Annotated[str, typer.Option(help="Name or .gguf file; the prefix belongs to this very file.")],
    system: Annotated[str | None, typer.Option(help="The system message to read.")] = None,
    messages: Annotated[
        Path | None, typer.Option(help="A JSON file with the list of messages to read.", metavar="FILE")
    ] = None,
) -> None:
    """Read messages and save the model's memory after them. Requests that begin with them then start there."""
    if (system is None) == (messages is None):
        raise typer.BadParameter("name the text to read with --system or with --messages, one of them.")
    dialogue = _read_messages(messages) if messages is not None else [{"role": "system", "content": system}]
    with errors_for_people(), Engine(load_config(context.obj)) as engine:
        n_tokens = engine.save_prefix(model, dialogue, out)
        typer.echo(f"{out}: {n_tokens} tokens, {out.stat().st_size / 2**20:.1f} MiB")


@prefix.command()
def check(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A file that `save` has written.", metavar="FILE")],
    model: Annotated[str, typer.Option(help="Name or .gguf file that it should belong to.")],
) -> None:
    """Say whether a saved prefix fits a model and this version. Exit code 1 where it does not."""
    with errors_for_people(), Engine(load_config(context.obj)) as engine:
        typer.echo(f"{file}: fits, {engine.load_prefix(model, file)} tokens")


def _read_messages(path: Path) -> list[dict[str, Any]]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}.", param_hint="--messages") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} is not a JSON list of messages: {error}.", param_hint="--messages") from None
