"""`atelico bundle`: the folder a game ships, so that it runs where no Python is installed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from atelico.cli.report import errors_for_people, note
from atelico.config import load_config


class Target(StrEnum):
    """Who loads the bundle."""

    GODOT = "godot"
    UNITY = "unity"
    UNREAL = "unreal"
    C = "c"


_NEXT: Final = {
    Target.GODOT: "It belongs in YourGame/addons/atelico/bin/linux.x86_64/atelico-runtime.",
    Target.UNITY: "It belongs in YourGame/Assets/StreamingAssets/atelico, models in its folder models.",
    Target.UNREAL: "It belongs in YourGame/Plugins/Atelico/Binaries/ThirdParty/atelico/Linux.",
    Target.C: "Link with -latelico and an rpath such as -Wl,-rpath,'$ORIGIN/atelico'; ship the folder whole.",
}


def bundle(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the bundle: new, empty, or an older bundle.", metavar="DIR")],
    model: Annotated[str | None, typer.Option(help="A model to put into the bundle's folder models.")] = None,
    target: Annotated[Target, typer.Option("--for", help="The engine the bundle is for.")] = Target.C,
    remote: Annotated[bool, typer.Option("--remote", help="Take along what remote:: models need.")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Only for CPUs like this one's: do not compile llama.cpp for others.")
    ] = False,
) -> None:
    """Make a folder with libatelico and all it needs, for machines without Python. See docs/shipping.md."""
    with errors_for_people():
        from atelico.bundle import bundle as make
        from atelico.bundle import llama
        from atelico.bundle.assemble import find_repository
        from atelico.bundle.manifest import sizes
        from atelico.engine import Engine

        path = None
        if model is not None:
            with Engine(load_config(context.obj)) as engine:
                path = engine.resolve(model).path
        if not native and not llama.is_built(find_repository()):
            note("atelico: compiling llama.cpp for all processors, once; this takes minutes")
        made = make(out, model=path, native=native, remote=remote, for_godot=target is Target.GODOT).manifest
    for part, size in sizes(made.files).items():
        if size >= 100_000:
            typer.echo(f"{size / 1e6:8.1f} MB  {part}")
    typer.echo(f"{made.size / 1e6:8.1f} MB  in {out}")
    typer.echo(f"Needs a CPU {made.requires.cpu}; " + ", ".join(f"{k} {v}" for k, v in made.requires.versions.items()))
    if made.without_licence:
        note(f"atelico: add the licences of {', '.join(made.without_licence)}: not found on this machine", "yellow")
    note(f"atelico: {_NEXT[target]}")
