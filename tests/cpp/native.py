"""What the tests of the C++, Unreal and Unity bindings share: building libatelico, compiling, running TAP programs."""

from __future__ import annotations

import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from atelico.models.packaged import PACKAGED, installed_parts
from support.chat import SMOLLM2

ROOT = Path(__file__).parents[2]
WRAPPER = ROOT / "bindings" / "unreal" / "Source" / "ThirdParty" / "atelico" / "include"
# As Unreal compiles, and stricter.
STRICT = ("-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-pthread")


def skip_without_model() -> None:
    """Skip where SmolLM2 is not installed."""
    if installed_parts(next(model for model in PACKAGED if model.name == SMOLLM2)) is None:
        pytest.skip(f"the pip package of {SMOLLM2} is not installed")


@functools.cache
def library() -> Path:
    """The folder with libatelico.so and atelico.h, built once per run."""
    folder = Path(tempfile.mkdtemp(prefix="atelico-lib-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run([sys.executable, str(ROOT / "ffi" / "cabi" / "build.py"), "--out", str(folder)])
    return folder


@pytest.fixture(scope="session")
def lib() -> Path:
    """library(), as a fixture."""
    return library()


def require(program: str, package: str) -> str:
    """The path of `program`, or a skip that names the Debian package."""
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: apt-get install {package})")
    return path


def run(command: Sequence[str], timeout_s: float = 150.0, **env: str) -> str:
    """The output of `command`, which must succeed."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def compile_cpp(compiler: str, sources: Sequence[Path], out: Path, *options: str, lib: Path | None = None) -> Path:
    """Compile a program with the wrapper on its path; it is linked with libatelico where `lib` is given."""
    link = [f"-L{lib}", "-latelico", f"-Wl,-rpath,{lib}"] if lib else []
    header = lib or ROOT / "ffi" / "cabi"
    run([compiler, *STRICT, f"-I{WRAPPER}", f"-I{header}", *options, *map(str, sources), "-o", str(out), *link])
    return out


def statements(output: str) -> list[str]:
    """The statements of a TAP program; all must hold, and the plan at the end must be there."""
    lines = re.findall(r"^(ok|not ok) \d+ - (.*)$", output, re.MULTILINE)
    assert f"1..{len(lines)}" in output.splitlines(), f"ended early:\n{output}"
    assert not [statement for verdict, statement in lines if verdict != "ok"], output
    return [statement for _, statement in lines]
