"""Installs Godot, builds the extension, makes a project that can be run, runs it. No tests in here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Path(__file__).resolve().parent / "project"
ADDON = ROOT / "bindings/godot/addons/atelico"
DEMO = ROOT / "bindings/godot/demo"
PLATFORM = "linux.x86_64"
EXTENSION = "libatelico_godot.so"
PRESET = "Linux"

# Lines a Godot prints about the machine it runs on, not about us.
_HARMLESS = ("Fontconfig", "X509CertificateMbedTLS", "ALSA", "PulseAudio", "CA certificates")
_SNIPPET = re.compile(r"^( *)```gdscript\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Output:
    """What a run of Godot left behind."""

    code: int
    text: str

    @property
    def held(self) -> list[str]:
        """The statements that held."""
        return [line for line in self.text.splitlines() if line.startswith("ok - ")]

    @property
    def broken(self) -> list[str]:
        """The statements that did not."""
        return [line for line in self.text.splitlines() if line.startswith("not ok - ")]

    @property
    def complaints(self) -> list[str]:
        """What Godot itself complains about: leaks, crashes, errors of scripts, panics of the extension."""
        words = ("leaked", "still in use", "SCRIPT ERROR", "panic", "handle_crash", "Parse Error")
        return [line for line in self.text.splitlines() if any(w in line for w in words)]


@dataclass(frozen=True)
class Godot:
    """A Godot program and, where there is one, the template of its exports."""

    program: Path
    template: Path | None
    home: Path  # where it may write

    def run(
        self,
        *arguments: object,
        program: Path | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] = os.environ,
        timeout: float = 120,
    ) -> Output:
        """Run it, or an exported game, headless and wait. A run that hangs fails the test with what it had printed."""
        command = [str(program or self.program), "--headless", *map(str, arguments)]
        places = {f"XDG_{kind}_HOME": str(self.home / kind.lower()) for kind in ("DATA", "CONFIG", "CACHE")}
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**environment, **places},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as expired:
            printed = (expired.stdout or b"").decode(errors="replace")
            pytest.fail(f"Godot did not end within {timeout} s. It had printed:\n{printed}")
        lines = done.stdout.decode(errors="replace").splitlines()
        return Output(done.returncode, "\n".join(line for line in lines if not any(w in line for w in _HARMLESS)))

    def export(self, project: Path, program: Path) -> Output:
        """Export a project for Linux."""
        return self.run("--path", project, "--export-release", PRESET, program, timeout=240)


def find_godot(home: Path) -> Godot:
    """The Godot that GODOT names, else one that is installed into build/godot; skips where there is none."""
    if sys.platform != "linux":
        pytest.skip("the Godot tests have only been made for Linux")
    named = os.environ.get("GODOT")
    if named:
        exporting = os.environ.get("GODOT_TEMPLATE")
        return _with_template(Godot(Path(named), Path(exporting) if exporting else None, home))
    script = ROOT / "scripts/install_godot.sh"
    done = subprocess.run([str(script), str(ROOT / "build/godot")], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        reason = f"Godot cannot be installed: {done.stderr.strip().splitlines()[-1:]}"
        if os.environ.get("CI"):  # there it is an unnoticed hole, not somebody's machine
            pytest.fail(reason)
        pytest.skip(reason)
    program = Path(done.stdout.strip())
    template = program.with_name("godot-template-release")
    return _with_template(Godot(program, template if template.exists() else None, home))


def _with_template(godot: Godot) -> Godot:
    """Put the export template where Godot looks for it."""
    if godot.template is None:
        return godot
    version = next(line for line in godot.run("--version").text.splitlines() if line[:1].isdigit())
    parts = version.split(".")
    numbers = [part for part in parts[:3] if part.isdigit()]
    folder = godot.home / "data/godot/export_templates" / ".".join([*numbers, parts[len(numbers)]])
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("linux_release.x86_64", "linux_debug.x86_64"):
        (folder / name).symlink_to(godot.template.resolve())
    return godot


def build_extension() -> Path:
    """The compiled extension."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "-p", "atelico-godot"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ROOT / "target/release" / EXTENSION


def build_library(folder: Path) -> Path:
    """A folder with libatelico, as `make lib` leaves it."""
    command = [sys.executable, str(ROOT / "ffi/cabi/build.py"), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def make_project(folder: Path, extension: Path, runtime: Path, model: Path, source: Path = PROJECT) -> Path:
    """A copy of a project with the add-on, the runtime and a model in place."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(".godot", "addons", "*.import"))
    shutil.copytree(ADDON, folder / "addons/atelico", ignore=shutil.ignore_patterns("bin"))
    place = folder / "addons/atelico/bin" / PLATFORM
    place.mkdir(parents=True)
    shutil.copy(extension, place)
    shutil.copytree(runtime, place / "atelico-runtime")
    (place / "atelico-runtime/.gdignore").touch()
    models = folder / "models"
    models.mkdir(exist_ok=True)
    for name in ("SmolLM2-135M-Instruct.gguf", "fresh-0.gguf", "fresh-1.gguf", "frames-0.gguf", "frames-1.gguf"):
        (models / name).symlink_to(model)
    # Otherwise the first start with a new extension is an import, which Godot 4.6 leaves with a crash.
    (folder / ".godot").mkdir()
    (folder / ".godot/extension_list.cfg").write_text("res://addons/atelico/atelico.gdextension\n")
    return folder


def add_snippets(project: Path) -> int:
    """Put the scripts of docs/godot.md into a project, for its suite `documents`; returns their number."""
    text = (ROOT / "docs/godot.md").read_text(encoding="utf-8")
    snippets = [match[2] for match in _SNIPPET.finditer(text)]
    folder = project / "documents"
    folder.mkdir()
    for i, snippet in enumerate(snippets):
        (folder / f"snippet_{i}.gd").write_text(textwrap.dedent(snippet), encoding="utf-8")
    return len(snippets)
