"""`atelico lib`: builds libatelico, the C library, for this machine. The C sources come with the repository only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from atelico.cli.report import errors_for_people
from atelico.errors import ConfigError

lib = typer.Typer(
    name="lib",
    help="Build libatelico, the library for C, C++, C# and Godot.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@lib.callback()
def lib_options() -> None:
    """Build libatelico, the library for C, C++, C# and Godot."""


@lib.command()
def build(
    out: Annotated[Path, typer.Option(help="Folder for libatelico and atelico.h.", metavar="DIR")] = Path("build/lib"),
) -> None:
    """Compile libatelico into a folder, for the Python that runs this command."""
    with errors_for_people():
        script = find_build_script()
    raise typer.Exit(subprocess.run([sys.executable, str(script), "--out", str(out)], check=False).returncode)


def find_build_script() -> Path:
    """The build script in the repository that this package was installed from.

    Raises:
        ConfigError: the package does not lie in a repository.
    """
    script = Path(__file__).resolve().parents[3] / "ffi" / "cabi" / "build.py"
    if not script.is_file():
        raise ConfigError(
            f"The C sources of libatelico are not installed ({script} is missing).",
            hint="Clone the repository and run make lib there.",
        )
    return script
