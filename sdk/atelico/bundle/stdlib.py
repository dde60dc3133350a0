"""The interpreter of a bundle: libpython, the standard library in one zip, and its extension modules."""

from __future__ import annotations

import shutil
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from atelico.bundle import elf
from atelico.bundle.bytecode import compiled
from atelico.bundle.errors import BundleError
from atelico.bundle.parts import EXTENSION_MODULES, REMOTE_EXTENSION_MODULES, STDLIB_LEFT_OUT

ARCHIVE: Final = "stdlib.zip"
EXTENSIONS: Final = "lib-dynload"

_NEVER: Final = frozenset(
    {"test", "tests", "idle_test", "__pycache__", "site-packages", "dist-packages", "lib-dynload"}
)
# ZIP cannot say earlier; one time for all files makes equal bundles from equal parts.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)


def copy_interpreter(libpython: Path, folder: Path, *, remote: bool) -> None:
    """Put libpython, the standard library and its extension modules into `folder`.

    Raises:
        BundleError: a module cannot be compiled, or binutils are missing.
    """
    target = folder / libpython.name
    shutil.copyfile(libpython, target)
    elf.strip(target)
    _write_archive(Path(sysconfig.get_path("stdlib")), folder / ARCHIVE)
    _copy_extensions(extension_folder(), folder / EXTENSIONS, remote=remote)


def extension_folder() -> Path:
    """The folder of this interpreter's own extension modules, also in a virtual environment.

    Raises:
        BundleError: there is none.
    """
    folder = Path(str(sysconfig.get_config_var("DESTSHARED")))
    if not folder.is_dir():
        raise BundleError(f"The extension modules of the standard library are not in {folder}.")
    return folder


def _write_archive(stdlib: Path, archive: Path) -> None:
    # Stored, not compressed: reading compressed modules needs zlib before the first module is read, and a game's own
    # package compresses and patches plain files better.
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as out:
        for source in _modules(stdlib):
            inside = source.relative_to(stdlib)
            name = inside.with_suffix(".pyc").as_posix()
            out.writestr(zipfile.ZipInfo(name, _EPOCH), compiled(source, f"stdlib/{inside.as_posix()}"))


def _modules(stdlib: Path) -> Iterator[Path]:
    for path in sorted(stdlib.rglob("*.py")):
        parts = path.relative_to(stdlib).parts
        top = parts[0].removesuffix(".py")
        # config-* and _sysconfigdata* say how this machine compiled Python.
        if top in STDLIB_LEFT_OUT or top.startswith(("config-", "_sysconfigdata")) or not _NEVER.isdisjoint(parts):
            continue
        yield path


def _copy_extensions(source: Path, folder: Path, *, remote: bool) -> None:
    folder.mkdir()
    wanted = EXTENSION_MODULES | (REMOTE_EXTENSION_MODULES if remote else frozenset())
    for path in sorted(source.glob("*.so")):
        if path.name.partition(".")[0] in wanted:  # what is not there is compiled into libpython
            shutil.copyfile(path, folder / path.name)
            elf.strip(folder / path.name)
