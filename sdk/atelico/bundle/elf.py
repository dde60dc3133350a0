"""What a shared library asks of the machine it is loaded on, read with binutils' readelf."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atelico.bundle.errors import BundleError

_MAGIC: Final = b"\x7fELF"
_ENTRY: Final = re.compile(r"\((NEEDED|SONAME|RUNPATH|RPATH)\).*\[(.*)\]")
# "Name: GLIBC_2.34" in the table of needed versions.
_VERSION: Final = re.compile(r"Name: (GLIBC|GLIBCXX)_(\d+(?:\.\d+)*)\b")


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """The dynamic section of a library.

    Attributes:
        soname: the name it is known by once loaded; its file's name where it has none.
        needed: sonames that must be loaded with it.
        search: its RPATH or RUNPATH.
        versions: the newest symbol version it needs, per version family, such as {"GLIBC": (2, 34)}.
    """

    path: Path
    soname: str
    needed: tuple[str, ...]
    search: str
    versions: dict[str, tuple[int, ...]]


def is_elf(path: Path) -> bool:
    """Whether the file is an ELF library or program."""
    with path.open("rb") as file:
        return file.read(4) == _MAGIC


def read(path: Path) -> SharedLibrary:
    """Read a library.

    Raises:
        BundleError: readelf is missing or cannot read it.
    """
    if shutil.which("readelf") is None:
        raise BundleError("readelf is missing.", hint="Debian: apt-get install binutils.")
    done = subprocess.run(["readelf", "-dVW", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BundleError(f"readelf cannot read {path}: {done.stderr.strip()}.")
    found: dict[str, list[str]] = {}
    for key, value in _ENTRY.findall(done.stdout):
        found.setdefault(key, []).append(value)
    return SharedLibrary(
        path=path,
        soname=found.get("SONAME", [path.name])[0],
        needed=tuple(found.get("NEEDED", ())),
        search=(found.get("RUNPATH") or found.get("RPATH") or [""])[0],
        versions=_newest(_VERSION.findall(done.stdout)),
    )


def _newest(versions: list[tuple[str, str]]) -> dict[str, tuple[int, ...]]:
    newest: dict[str, tuple[int, ...]] = {}
    for family, text in versions:
        version = tuple(int(part) for part in text.split("."))
        newest[family] = max(newest.get(family, ()), version)
    return newest


def make_relative(path: Path) -> None:
    """Replace absolute folders of the search path by the library's own folder.

    The new text is written over the old one, which is never shorter: nothing else in the file moves.
    """
    search = read(path).search
    if not search.startswith("/"):
        return
    old = search.encode() + b"\0"
    content = path.read_bytes()
    if content.count(old) != 1:
        raise BundleError(f"{path} has a search path that cannot be replaced: {search}.")
    path.write_bytes(content.replace(old, b"$ORIGIN".ljust(len(old), b"\0")))


def strip(path: Path) -> None:
    """Take debug information and local symbols out of a library.

    Raises:
        BundleError: strip is missing or failed.
    """
    if shutil.which("strip") is None:
        raise BundleError("strip is missing.", hint="Debian: apt-get install binutils.")
    done = subprocess.run(["strip", "--strip-unneeded", str(path)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BundleError(f"strip failed on {path}: {done.stderr.strip()}.")


def where_linked(path: Path, soname: str) -> Path | None:
    """The file that this machine's loader takes for a library that `path` needs."""
    done = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False)
    found = re.search(rf"^\s*{re.escape(soname)} => (\S+)", done.stdout, re.MULTILINE)
    return Path(found[1]).resolve() if found and found[1].startswith("/") else None
