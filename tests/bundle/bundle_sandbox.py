"""Runs programs in a root folder that holds a bundle, the system's libraries a player has, and nothing else: no Python,
no shell, no home. No tests in here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Where the game lies inside the sandbox.
GAME = Path("/tmp/мод 日本/My Game")
_LOADER = Path("/lib64/ld-linux-x86-64.so.2")


@dataclass(frozen=True)
class Sandbox:
    """A root folder with a game in GAME, its bundle in GAME/atelico, and models in /models."""

    root: Path

    @property
    def game(self) -> Path:
        """The game's folder as this process sees it."""
        return self.root / GAME.relative_to("/")

    def command(self, program: str, *arguments: str, cpuinfo: Path | None = None) -> list[str]:
        """What starts a program of the game's folder in there."""
        # Mounts of a namespace of its own: they end with the program.
        script = 'mount --bind /proc "$1/proc" && mount --bind /dev "$1/dev"'
        script += ' && { [ -z "$2" ] || mount --bind "$2" "$1/proc/cpuinfo"; } && root=$1 && shift 2'
        script += ' && exec "$0" "$root" "$@"'
        chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin") or "chroot"
        namespace = ["unshare", "--mount", "sh", "-c", script, chroot, str(self.root), str(cpuinfo or "")]
        return [*namespace, str(GAME / program), *arguments]

    def run(
        self, program: str, *arguments: str, env: Mapping[str, str] | None = None, cpuinfo: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with an environment that knows no Python and an empty home."""
        return subprocess.run(
            self.command(program, *arguments, cpuinfo=cpuinfo),
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )


def environment(**more: str) -> dict[str, str]:
    """What the game is started with. PATH is for the tools that enter the sandbox; inside, it leads nowhere."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "ATELICO_MODELS": "/models", **more}


def require_sandbox() -> None:
    """Skip the test where this process may not make one."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a sandbox needs root and unshare")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not permit mount namespaces")


def make_sandbox(root: Path, bundle: Path, programs: list[Path], model: Path, libraries: list[str]) -> Sandbox:
    """A sandbox with the system's `libraries` (sonames), and with nothing else of this machine."""
    sandbox = Sandbox(root)
    for folder in (root / "proc", root / "dev", root / "models", root / "lib64", sandbox.game):
        folder.mkdir(parents=True)
    for soname in libraries:
        # The path of a library that the C compiler would link is the one the loader would find.
        found = _LOADER if soname == _LOADER.name else Path(_printed("cc", f"-print-file-name={soname}"))
        target = root / "lib64" / soname if soname == _LOADER.name else root / "lib" / "x86_64-linux-gnu" / soname
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found, target)
        target.chmod(0o755)
    shutil.copytree(bundle, sandbox.game / "atelico")
    for program in programs:
        shutil.copy(program, sandbox.game)
    os.link(model, root / "models" / model.name) if _same_disk(model, root) else shutil.copy(model, root / "models")
    return sandbox


def compile_game(source: Path, bundle: Path, out: Path) -> Path:
    """A program that finds the bundle in a folder beside it."""
    command = [
        "cc",
        str(source),
        f"-I{bundle}",
        f"-L{bundle}",
        "-latelico",
        "-Wl,-rpath,$ORIGIN/atelico",
        "-o",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _same_disk(a: Path, b: Path) -> bool:
    return a.stat().st_dev == b.stat().st_dev
