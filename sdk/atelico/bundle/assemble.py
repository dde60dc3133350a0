"""Making a bundle: every part into a new folder, a check that nothing points outside of it, the manifest, and only then
the folder the user named."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Final

import atelico
from atelico.bundle import elf, llama, manifest
from atelico.bundle.errors import BundleError
from atelico.bundle.licences import copy_licences
from atelico.bundle.manifest import Manifest, Requirements
from atelico.bundle.packages import chosen, copy_llama, copy_packages
from atelico.bundle.parts import (
    LIBFFI,
    LIBGOMP,
    REMOTE_SYSTEM_LIBRARIES,
    SYSTEM_LIBRARIES,
    PrivateLibrary,
)
from atelico.bundle.stdlib import ARCHIVE, EXTENSIONS, copy_interpreter, extension_folder

PLATFORM: Final = "linux-x86_64"
MODELS: Final = "models"
PYTHON: Final = "python"
PACKAGES: Final = "packages"
# Loads libpython together with the libraries its extension modules need: those say by name only what they want.
LOADER: Final = "libatelico-python.so"
_GODOT_IGNORE: Final = ".gdignore"


@dataclass(frozen=True, slots=True)
class Bundled:
    """A finished bundle: where it is and what it consists of."""

    folder: Path
    manifest: Manifest


def bundle(
    out: Path, *, model: Path | None = None, native: bool = False, remote: bool = False, for_godot: bool = False
) -> Bundled:
    """Make a bundle, or renew the one that lies in `out`; models that the user has put there stay.

    Args:
        out: the folder; it must be new, empty, or a bundle.
        model: a .gguf file to take along.
        native: take llama.cpp as it is installed, for CPUs like this machine's, instead of compiling it for all.
        remote: take along what sends requests to other servers.
        for_godot: keep Godot's editor from importing the folder.

    Raises:
        BundleError: something is missing on this machine, or `out` holds something else.
    """
    repository = find_repository()
    if sys.platform != "linux":
        raise BundleError(f"Bundles can only be made on Linux so far, not on {sys.platform}.")
    _check_out(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        folder = Path(temporary) / "bundle"
        folder.mkdir()
        made = _make(folder, repository, model, native=native, remote=remote, for_godot=for_godot)
        _publish(folder, out)
    return Bundled(out, made)


def find_repository() -> Path:
    """The repository that this package runs from: the C sources lie there.

    Raises:
        BundleError: it was installed without one.
    """
    repository = Path(atelico.__file__).resolve().parents[2]
    if not (repository / "ffi" / "cabi" / "build.py").is_file():
        raise BundleError(
            "The C sources of libatelico are not installed.", hint="Clone the repository and run make setup there."
        )
    return repository


def _make(
    folder: Path, repository: Path, model: Path | None, *, native: bool, remote: bool, for_godot: bool
) -> Manifest:
    libraries = llama.native_libraries() if native else llama.portable_libraries(repository)
    python = folder / PYTHON
    python.mkdir()
    libpython = _build_libatelico(repository, folder)
    copy_interpreter(libpython, python, remote=remote)
    copy_packages(python / PACKAGES, remote=remote)
    gomp = _private(next(path for path in libraries.files.values() if "base" in path.name), LIBGOMP)
    copy_llama(libraries, gomp, python / PACKAGES)
    without_licence = copy_licences(repository, libraries, folder / "licences", remote=remote)
    if model is not None:
        (folder / MODELS).mkdir()
        shutil.copyfile(model, folder / MODELS / model.name)
    if for_godot:
        (folder / _GODOT_IGNORE).touch()
    for library in _libraries(folder):
        elf.make_relative(library)
    files = manifest.describe(folder)
    made = Manifest(
        platform=PLATFORM,
        versions=_versions(remote=remote),
        requires=_requirements(folder, libraries, SYSTEM_LIBRARIES | (REMOTE_SYSTEM_LIBRARIES if remote else set())),
        model=model.name if model else None,
        without_licence=without_licence,
        size=sum(file.size for file in files),
        files=files,
    )
    manifest.write(made, folder)
    return made


def _build_libatelico(repository: Path, folder: Path) -> Path:
    """libatelico, its header, its home file and the loader into the bundle; returns this machine's libpython."""
    build = _build_script(repository)
    try:
        interpreter = build.find_interpreter()
        libpython: Path = interpreter.libpython
        with contextlib.redirect_stdout(io.StringIO()):  # cffi says what it writes
            build.build(folder)
        python = folder / PYTHON
        libraries = [libpython]
        for extension in extension_folder().glob("_ctypes.*.so"):  # a libpython may have it inside
            shutil.copyfile(_private(extension, LIBFFI), python / LIBFFI.soname)
            libraries.append(python / LIBFFI.soname)
        source = python / "loader.c"
        source.write_text("extern const int atelico_python;\nconst int atelico_python = 1;\n", encoding="utf-8")
        flags = ["-Wl,--no-as-needed", f"-Wl,-soname,{LOADER}", "-Wl,-rpath,$ORIGIN", *map(str, libraries)]
        # The system's loader refuses older processors, on which NumPy would die of an illegal instruction.
        flags.append("-Wl,-z,x86-64-v2")
        build.compile_library(python / LOADER, [source], *flags)
        source.unlink()
        home = build.Interpreter(
            libpython=Path(PYTHON, LOADER),
            include=interpreter.include,
            executable=Path(PYTHON, "python3"),  # a name for sys.executable; there is no such file
            prefix=Path(PYTHON),
            base_prefix=Path(PYTHON),
            path=tuple(Path(PYTHON, entry) for entry in (ARCHIVE, EXTENSIONS, PACKAGES)),
        )
        (folder / "atelico-home.txt").write_text(build.home_file(home), encoding="utf-8")
    except build.BuildError as error:
        raise BundleError(str(error)) from None
    return libpython


def _build_script(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("atelico_cabi_build", repository / "ffi" / "cabi" / "build.py")
    assert spec is not None and spec.loader is not None  # the path ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def _private(user: Path, library: PrivateLibrary) -> Path:
    path = elf.where_linked(user, library.soname)
    if path is None:
        raise BundleError(f"{library.soname}, which {user.name} needs, is not on this machine.")
    return path


def _versions(*, remote: bool) -> dict[str, str]:
    names = ["atelico", *(package.distribution for package in chosen(remote=remote))]
    return {"python": ".".join(map(str, sys.version_info[:3])), **{name: version(name) for name in names}}


def _libraries(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*.so*")) if path.is_file() and elf.is_elf(path)]


def _requirements(folder: Path, libraries: llama.LlamaLibraries, system: frozenset[str]) -> Requirements:
    """What the libraries of the bundle need that is not in it.

    Raises:
        BundleError: a library that players cannot be expected to have.
    """
    found = [elf.read(path) for path in _libraries(folder)]
    inside = {library.soname for library in found} | {library.path.name for library in found}
    outside = {(soname, library.path.name) for library in found for soname in library.needed if soname not in inside}
    for soname, user in sorted(outside):
        if soname not in system:
            raise BundleError(f"{user} needs {soname}, which is neither in the bundle nor on every player's machine.")
    families = {family for library in found for family in library.versions}
    newest = {family: max(library.versions.get(family, ()) for library in found) for family in sorted(families)}
    return Requirements(
        cpu=llama.BASELINE if libraries.variants else "like that of the machine that made the bundle",
        variants=list(libraries.variants),
        versions={family: ".".join(map(str, numbers)) for family, numbers in newest.items()},
        libraries=sorted({soname for soname, _ in outside}),
    )


def _check_out(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BundleError(f"{out} is not a folder.")
    if out.is_dir() and not (out / manifest.NAME).is_file() and any(path.name != MODELS for path in out.iterdir()):
        raise BundleError(f"{out} holds something that is no bundle.", hint="Name a new or an empty folder.")


def _publish(folder: Path, out: Path) -> None:
    """Move a finished bundle to its place. Of an old one what its manifest names goes, except models."""
    if (out / manifest.NAME).is_file():
        for file in manifest.read(out).files:
            if not file.path.startswith(f"{MODELS}/"):
                (out / file.path).unlink(missing_ok=True)
    for path in sorted(folder.rglob("*")):
        target = out / path.relative_to(folder)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
