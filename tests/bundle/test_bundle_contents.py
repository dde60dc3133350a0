"""What lies in a bundle: all that is needed, nothing of the machine that made it, and a manifest that is true."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from bundle_sandbox import ROOT

from atelico.bundle import Bundled, BundleError, bundle, elf, llama, problems
from atelico.bundle.packages import chosen
from atelico.bundle.parts import REMOTE_SYSTEM_LIBRARIES, SYSTEM_LIBRARIES

# Run by an interpreter whose path is the bundle's and nothing else.
IMPORT_ALL = """
import sys
root = sys.argv[1]
sys.path[:] = [root + "/stdlib.zip", root + "/lib-dynload", root + "/packages"]
import importlib, json, pathlib
failing = {}
for path in sorted(pathlib.Path(root, "packages", "atelico").rglob("*.pyc")):
    name = ".".join(path.relative_to(root + "/packages").with_suffix("").parts).removesuffix(".__init__")
    try:
        importlib.import_module(name)
    except ImportError as error:
        failing[name] = str(error)
print(json.dumps(failing))
"""


def libraries(folder: Path) -> list[Path]:
    """Every ELF file of a bundle."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and elf.is_elf(path)]


def test_the_manifest_agrees_with_the_files(bundled: Bundled) -> None:
    assert problems(bundled.folder) == []
    listed = {file.path for file in bundled.manifest.files}
    there = {path.relative_to(bundled.folder).as_posix() for path in bundled.folder.rglob("*") if path.is_file()}
    assert there == listed | {"manifest.json"}


def test_a_changed_and_a_missing_file_are_found(bundled: Bundled, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bundled.folder, tmp_path / "copy"))
    (copy / "atelico.h").write_text("other", encoding="utf-8")
    (copy / "libatelico.so").unlink()
    assert sorted(text.split()[0] for text in problems(copy)) == ["atelico.h", "libatelico.so"]


def test_a_bundle_without_a_model_is_small(bundled: Bundled) -> None:
    assert bundled.manifest.size < 120_000_000


def test_every_library_finds_what_it_needs_in_the_bundle_or_the_listed_system(bundled: Bundled) -> None:
    found = [elf.read(path) for path in libraries(bundled.folder)]
    inside = {library.soname for library in found} | {library.path.name for library in found}
    outside = {soname for library in found for soname in library.needed} - inside
    assert outside == set(bundled.manifest.requires.libraries)
    assert outside <= SYSTEM_LIBRARIES


def test_no_library_searches_a_folder_of_the_build_machine(bundled: Bundled) -> None:
    searched = {entry for path in libraries(bundled.folder) for entry in elf.read(path).search.split(":") if entry}
    assert searched and all(entry.startswith("$ORIGIN") for entry in searched)


def test_no_file_names_a_folder_of_the_build_machine(bundled: Bundled) -> None:
    folders = [os.fsencode(path) + b"/" for path in (ROOT, Path.home(), sys.base_prefix, bundled.folder)]
    texts = {
        path.name: path.read_bytes()
        for path in bundled.folder.rglob("*")
        if path.is_file() and not elf.is_elf(path) and "licences" not in path.parts
    }
    with zipfile.ZipFile(bundled.folder / "python/stdlib.zip") as archive:
        texts |= {name: archive.read(name) for name in archive.namelist()}
    assert len(texts) > 500
    assert [name for name, content in texts.items() if any(folder in content for folder in folders)] == []


def test_every_part_has_its_licence(bundled: Bundled) -> None:
    there = {path.name for path in (bundled.folder / "licences").iterdir()}
    wanted = {"atelico", "python", "libffi", "gcc-libgomp", "rust-pyo3"}
    wanted |= {package.distribution for package in chosen(remote=False)}
    missing = set(bundled.manifest.without_licence)
    assert there | missing >= wanted and not there & missing
    assert {package.distribution for package in chosen(remote=False)} <= there


def test_no_test_code_and_no_command_line_come_along(bundled: Bundled) -> None:
    packages = bundled.folder / "python/packages"
    unwanted = ("atelico/cli", "atelico/server", "numpy/f2py", "numpy/random", "llama_cpp/server", "typer", "diskcache")
    assert [name for name in unwanted if (packages / name).exists()] == []
    assert not [path for path in packages.rglob("*") if path.is_dir() and path.name in ("tests", "__pycache__")]
    assert list(packages.rglob("*.py")) == []


def test_every_module_of_the_engine_can_be_imported_from_the_bundle_alone(bundled: Bundled) -> None:
    reasons = failing_imports(bundled.folder)
    assert {name: reason for name, reason in reasons.items() if "httpx" not in reason} == {}
    assert set(reasons) <= {"atelico.remote.client"}


def test_kernels_for_old_and_new_processors_come_along_without_amx(bundled: Bundled) -> None:
    if not bundled.manifest.requires.variants:
        pytest.skip("llama.cpp has not been compiled for all processors")
    kernels = {path.name for path in (bundled.folder / "python/packages/llama_cpp/lib").glob("libggml-cpu*")}
    assert kernels == {f"libggml-cpu-{name}.so" for name in llama.VARIANTS}
    assert not _uses(bundled.folder, "libggml-cpu-*.so", "tdpbssd")


def test_only_the_kernels_use_newer_instructions(bundled: Bundled) -> None:
    if not bundled.manifest.requires.variants:
        pytest.skip("llama.cpp has not been compiled for all processors")
    assert _uses(bundled.folder, "libggml-cpu-haswell.so", "%ymm")  # or the search would prove nothing
    for pattern in ("libllama.so", "libggml.so*", "libggml-base.so*", "libggml-cpu-sse42.so"):
        assert not _uses(bundled.folder, pattern, "%ymm"), pattern


def _uses(folder: Path, pattern: str, text: str) -> list[str]:
    files = sorted((folder / "python/packages/llama_cpp/lib").glob(pattern))
    assert files
    command = f"objdump -d --no-show-raw-insn \"$0\" | grep -q -m1 -F '{text}'"
    return [
        path.name for path in files if subprocess.run(["bash", "-c", command, str(path)], check=False).returncode == 0
    ]


def test_a_renewed_bundle_keeps_the_users_models(bundled: Bundled, tmp_path: Path) -> None:
    out = Path(shutil.copytree(bundled.folder, tmp_path / "game"))
    (out / "models").mkdir()
    (out / "models/npc.gguf").write_bytes(b"GGUF")
    (out / "python/stdlib.zip").write_bytes(b"old")
    bundle(out, native=True)
    assert problems(out) == []
    assert (out / "models/npc.gguf").read_bytes() == b"GGUF"


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "save.dat").write_text("mine", encoding="utf-8")
    with pytest.raises(BundleError, match="no bundle"):
        bundle(tmp_path, native=True)
    assert [path.name for path in tmp_path.iterdir()] == ["save.dat"]


def test_what_remote_models_need_comes_on_request(tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    made = bundle(tmp_path / "remote", native=True, remote=True)
    assert (made.folder / "python/packages/httpx").is_dir()
    assert set(made.manifest.requires.libraries) - SYSTEM_LIBRARIES == REMOTE_SYSTEM_LIBRARIES
    assert failing_imports(made.folder) == {}


def failing_imports(folder: Path) -> dict[str, str]:
    """The modules of atelico in a bundle that cannot be imported from its folders alone, with the reason."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(folder / "python")],
        capture_output=True,
        text=True,
        check=True,
    )
    failing: dict[str, str] = json.loads(done.stdout)
    return failing


@pytest.mark.slow
def test_llama_cpp_compiles_for_another_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(llama, "VARIANTS", ("sse42",))  # one instead of all: minutes
    folder = tmp_path / "portable"
    llama.build_portable(ROOT, folder)
    names = {path.name for path in folder.iterdir()}
    assert names == {"libggml-cpu-sse42.so", "libggml.so", "libggml.so.0", "LICENSE"}
    assert "libggml-cpu.so.0" not in elf.read(folder / "libggml.so.0").needed
    assert list(tmp_path.iterdir()) == [folder]
