"""`atelico pull`: a model from a hub into the user's model folder, with a progress bar."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from atelico.cli.report import errors_for_people, note
from atelico.config import load_config
from atelico.errors import ConfigError


def pull(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="org/repo or org/repo:quant, such as org/model-GGUF:Q4_K_M.")],
    into: Annotated[
        Path | None, typer.Option(help="Model folder; otherwise the first configured one.", metavar="FOLDER")
    ] = None,
) -> None:
    """Download a model from a Hugging Face compatible hub (HF_ENDPOINT). An interrupted download is continued."""
    with errors_for_people():
        if importlib.util.find_spec("huggingface_hub") is None:
            raise ConfigError("Pulling needs the package huggingface-hub.", hint="pip install 'atelico[server]'.")
        from atelico.hub.pull import pull as download

        config = load_config(context.obj)
        folder = into or Path(config.model_folders[0] if config.model_folders else config.folders()[-1]).expanduser()
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        bars = Progress(*columns, console=Console(stderr=True), transient=True)
        tasks: dict[str, TaskID] = {}

        def show(file: str, done: int, size: int) -> None:
            bars.start()  # not before there is something to show
            if file not in tasks:
                tasks[file] = bars.add_task(Path(file).name, total=size or None)
            bars.update(tasks[file], completed=done)

        try:
            path = download(name, folder, show)
        finally:
            if tasks:
                bars.stop()
    note(f"atelico: {name} is in {path.parent}")
    typer.echo(path)
