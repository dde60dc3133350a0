"""The C# compiler and mono for tests: installed where that is possible, else a skip with the reason."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cpp.native import ROOT, run

# As the oldest Unity that the package names compiles, or older: mcs has no newer one.
STRICT = ("-langversion:7.2", "-warn:4", "-warnaserror")


@functools.cache
def _why_not() -> str | None:
    done = subprocess.run([str(ROOT / "scripts" / "install_mono.sh")], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip() or "mono could not be installed"


def compile_cs(sources: Sequence[Path], out: Path, *options: str) -> Path:
    """Compile C# to a program or library; skips where there is no compiler."""
    if why := _why_not():
        pytest.skip(why)
    run(["mcs", *STRICT, *options, f"-out:{out}", *map(str, sources)])
    return out
