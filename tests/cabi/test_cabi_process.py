"""The library in a foreign process: what it leaves alone, and what it does not let itself be misled by."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cabi_programs import HERE, Library, environment, run, run_tap


def test_the_hosts_signals_locale_and_streams_are_left_alone(library: Library, tmp_path: Path) -> None:
    statements = run_tap(library.program("process"), library.path, tmp_path / "stderr.txt")
    assert len(statements) == 10


def _decoy_python(folder: Path) -> Path:
    """A python3 and a folder of modules that would end the process if anybody used them."""
    folder.mkdir()
    python = folder / "python3"
    python.write_text("#!/bin/sh\nexit 99\n")
    python.chmod(0o755)
    for module in ("sitecustomize", "usercustomize", "numpy", "encodings", "atelico"):
        (folder / f"{module}.py").write_text("import os\nos._exit(98)\n")
    return folder


@pytest.mark.parametrize(
    "names", [("PATH",), ("PYTHONPATH",), ("PYTHONHOME",), ("HOME",), ("PATH", "PYTHONPATH", "PYTHONHOME", "HOME")]
)
def test_a_misleading_environment_changes_nothing(library: Library, tmp_path: Path, names: tuple[str, ...]) -> None:
    decoy = str(_decoy_python(tmp_path / "decoy"))
    changes = {name: "" if name == "HOME" else decoy for name in names}
    answer = json.loads(run(library.example("blocking"), env=environment(**changes, PYTHONSTARTUP=decoy)))
    assert answer["choices"][0]["message"]["content"]


def test_an_empty_environment_is_enough(library: Library, tmp_path: Path) -> None:
    answer = json.loads(run(library.example("blocking"), env={}))
    assert answer["object"] == "chat.completion"


def test_it_works_from_a_path_with_spaces_and_other_scripts(library: Library, tmp_path: Path) -> None:
    moved = library.copy(tmp_path / "мод 日本" / "My Game")
    answer = json.loads(run(library.example("blocking"), env=environment(LD_PRELOAD=str(moved.path), LC_ALL="C")))
    assert answer["object"] == "chat.completion"


def test_the_log_goes_to_the_file_that_was_named(library: Library, tmp_path: Path) -> None:
    log = tmp_path / "atelico.log"
    run(library.example("blocking"), env=environment(ATELICO_LOG_FILE=str(log)))
    assert "SmolLM2" in log.read_text(encoding="utf-8")


def _spoil_home(folder: Path, change: str) -> None:
    home = folder / "atelico-home.txt"
    lines = home.read_text(encoding="utf-8").splitlines()
    if change == "no file":
        home.unlink()
        return
    spoilt = {
        "no libpython": [line if not line.startswith("libpython=") else "libpython=nowhere.so" for line in lines],
        "no host": [line if not line.startswith("host=") else "host=nowhere.so" for line in lines],
        "unknown line": [*lines, "colour=red"],
        "no path": [line for line in lines if not line.startswith("path=")],
        "no packages": [line for line in lines if "site-packages" not in line],
        "no standard library": [line for line in lines if not line.startswith("path=") or "sdk" in line],
    }[change]
    home.write_text("\n".join(spoilt), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("no file", "atelico-home.txt cannot be read"),
        ("no libpython", "nowhere.so cannot be loaded"),
        ("no host", "nowhere.so cannot be loaded"),
        ("unknown line", "is not a known key=value"),
        ("no path", "lacks libpython"),
        ("no packages", "the engine cannot be imported: ModuleNotFoundError"),
        ("no standard library", "CPython did not start"),
    ],
)
def test_a_broken_installation_is_an_error_with_a_reason(
    library: Library, tmp_path: Path, change: str, reason: str
) -> None:
    broken = library.copy(tmp_path / "lib")
    _spoil_home(broken.folder, change)
    done = subprocess.run(
        [str(library.example("blocking"))],
        env=environment(LD_PRELOAD=str(broken.path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert reason in done.stderr


# A process with a Python of its own, which the library then uses; its home file comes late.
_MENDING = """
import ctypes, pathlib, shutil, sys
folder, kept = map(pathlib.Path, sys.argv[1:])
lib = ctypes.CDLL(str(folder / "libatelico.so"))
lib.atelico_create.restype = ctypes.c_void_p
lib.atelico_destroy.argtypes = [ctypes.c_void_p]
lib.atelico_chat_completion.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int32]
request = (b'{"model": "SmolLM2-135M-Instruct", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}')
buffer = ctypes.create_string_buffer(65536)
results = []
for attempt in range(2):
    engine = lib.atelico_create(None)
    results.append(lib.atelico_chat_completion(engine, request, buffer, len(buffer)))
    lib.atelico_destroy(engine)
    shutil.copy(kept, folder / "atelico-home.txt")
print(results[0], results[1] > 0, sys.stdout is sys.__stdout__)
"""


def test_a_mended_installation_works_without_a_restart(library: Library, tmp_path: Path) -> None:
    broken = library.copy(tmp_path / "lib")
    _spoil_home(broken.folder, "no file")
    command = [sys.executable, "-c", _MENDING, str(broken.folder), str(library.folder / "atelico-home.txt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=HERE)
    assert done.stdout.split() == ["-3", "True", "True"], done.stderr
