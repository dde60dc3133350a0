"""`atelico models`: what is installed, read from the files' headers. No weights are loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from atelico.cli.report import errors_for_people, note
from atelico.config import EngineConfig, load_config
from atelico.engine import Engine
from atelico.errors import AtelicoError
from atelico.models.catalog import ModelRef
from atelico.models.gguf import read_gguf
from atelico.runtime import kernels
from atelico.runtime.devices import device_for
from atelico.speculation import gates

# Where nobody watches, a line is not cut at 80 columns.
_PIPE_WIDTH = 160


@dataclass(frozen=True)
class InstalledModel:
    """One line of the list. What the file says is None where it cannot be read; `problem` then says why.

    Attributes:
        n_ctx_train: tokens of context the model was trained for.
        can_chat: whether it generates text, as far as is known without loading it.
        can_speculate: whether a request may speculate on `device`; `reason` says why not.
    """

    name: str
    source: str
    path: str
    device: str
    architecture: str | None = None
    quantization: str | None = None
    size_bytes: int | None = None
    n_params: int | None = None
    n_ctx_train: int | None = None
    can_chat: bool = False
    can_speculate: bool | None = None
    reason: str | None = None
    problem: str | None = None


def describe(ref: ModelRef, config: EngineConfig) -> InstalledModel:
    """What the header of a model's file says."""
    device = config.device or device_for(config.n_gpu_layers)
    line = InstalledModel(ref.name, ref.source, str(ref.path), device)
    if ref.source != "path" and not ref.path.exists():
        return replace(line, can_chat=True, problem="is put together at its first use")
    try:
        info = read_gguf(ref.path)
    except AtelicoError as error:
        return replace(line, problem=str(error))
    generates = info.kind == "model" and not info.is_embedding
    reason = gates.veto(gates.Target.of(info, device, config)) if generates else "it does not generate text"
    return replace(
        line,
        architecture=info.architecture,
        quantization=info.quantization,
        size_bytes=info.size_bytes,
        n_params=info.n_params,
        n_ctx_train=info.n_ctx_train,
        can_chat=generates,
        can_speculate=reason is None,
        reason=reason,
    )


def models(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array, one object per model.")] = False,
) -> None:
    """List the models that a request can name."""
    with errors_for_people():
        config = load_config(context.obj)
        with Engine(config) as engine:
            lines = [describe(ref, config) for ref in engine.models()]
    if json:
        typer.echo(msgspec.json.encode(lines))
        return
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=_PIPE_WIDTH)
    console.print(_table(lines))
    console.print(f"\nKernels on the CPU: {kernels.in_use()}")
    for line in lines:
        if line.problem:
            note(f"{line.name}: {line.problem}", style="yellow")
    if not lines:
        note(f"No model is installed. Folders searched: {', '.join(map(str, config.folders()))}.")


def _table(lines: list[InstalledModel]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("model", "architecture", "quantisation"):
        table.add_column(column, overflow="fold")
    for column in ("size", "context"):
        table.add_column(column, justify="right")
    table.add_column("speculation", overflow="fold")
    table.add_column("source")
    for line in lines:
        table.add_row(
            line.name,
            line.architecture or "-",
            line.quantization or "-",
            decimal(line.size_bytes) if line.size_bytes is not None else "-",
            str(line.n_ctx_train or "-"),
            _speculation(line),
            line.source,
        )
    return table


def _speculation(line: InstalledModel) -> str:
    if line.can_speculate is None:
        return "-"
    return f"yes ({line.device})" if line.can_speculate else f"no: {line.reason}"
