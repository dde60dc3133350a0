"""Compiles and runs the C programs of this folder and of examples/c. No tests in here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def require_compiler(name: str) -> str:
    """The compiler's path; skips the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def compile_c(compiler: str, sources: list[Path], out: Path, *flags: str) -> Path:
    """Compile C (as C++ where the compiler is one) into a program."""
    command = [require_compiler(compiler), *flags[:1]]
    if compiler.endswith("++"):
        command += ["-x", "c++"]
    command += [*map(str, sources), "-x", "none", "-o", str(out), *flags[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def run(program: Path, *arguments: object, env: Mapping[str, str] | None = None, timeout: float = 240) -> str:
    """Run a program that must end with 0; returns its standard output."""
    done = subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=None if env is None else dict(env),
    )
    assert done.returncode == 0, f"{program.name} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_tap(program: Path, *arguments: object, timeout: float = 240) -> list[str]:
    """Run a program that prints TAP: nothing has failed, and all that was planned has run. Returns the statements."""
    output = run(program, *arguments, timeout=timeout)
    lines = output.splitlines()
    held = [line for line in lines if line.startswith("ok ")]
    assert not [line for line in lines if line.startswith("not ok ")]
    assert f"1..{len(held)}" in lines and held, output
    return held


@dataclass(frozen=True)
class Library:
    """A built libatelico in `folder`; programs go to `programs`."""

    folder: Path
    programs: Path

    @property
    def path(self) -> Path:
        """The shared library."""
        return self.folder / "libatelico.so"

    def compile(self, source: Path, compiler: str = "gcc", standard: str = "-std=c99") -> Path:
        """A program linked with this library."""
        out = self.programs / f"{source.stem}-{compiler}{standard}"
        if out.exists():
            return out
        return compile_c(
            compiler,
            [source],
            out,
            standard,
            "-D_GNU_SOURCE",
            *WARNINGS,
            f"-I{HERE}",
            f"-I{self.folder}",
            f"-L{self.folder}",
            "-latelico",
            f"-Wl,-rpath,{self.folder}",
            "-pthread",
            "-lm",
            "-ldl",
        )

    def program(self, name: str) -> Path:
        """A C test of this folder, compiled as C99."""
        return self.compile(HERE / f"{name}.c")

    def example(self, name: str) -> Path:
        """An example of examples/c, compiled as C99."""
        return self.compile(ROOT / f"examples/c/{name}.c")

    def copy(self, folder: Path) -> Library:
        """The same library in another folder."""
        shutil.copytree(self.folder, folder)
        return Library(folder, self.programs)


def environment(**changes: str) -> dict[str, str]:
    """This process's environment with changes."""
    return {**os.environ, **changes}
