"""manifest.json: what a bundle consists of, with versions, sizes and checksums; and whether a folder still agrees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from atelico.bundle.errors import BundleError

NAME: Final = "manifest.json"


class File(Struct, frozen=True):
    """A file of the bundle: its path with forward slashes, size in bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


class Requirements(Struct, frozen=True):
    """What the player's machine must have.

    Attributes:
        cpu: the oldest processor.
        variants: generations of processors that llama.cpp's kernels come for; the best one is taken.
        versions: the oldest versions of glibc and of libstdc++'s interface, such as {"GLIBC": "2.34"}.
        libraries: the system's libraries, by soname.
    """

    cpu: str
    variants: list[str]
    versions: dict[str, str]
    libraries: list[str]


class Manifest(Struct, frozen=True):
    """A bundle.

    Attributes:
        versions: of every part.
        model: the file in models/ that came with it, if any.
        without_licence: parts whose licence text was not found on the machine that made the bundle.
        size: of all files together, in bytes.
    """

    platform: str
    versions: dict[str, str]
    requires: Requirements
    model: str | None
    without_licence: list[str]
    size: int
    files: list[File]


def describe(folder: Path) -> list[File]:
    """Every file below `folder`, sorted by path."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [File(path.relative_to(folder).as_posix(), path.stat().st_size, _sha256(path)) for path in paths]


def write(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into the folder it describes."""
    (folder / NAME).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")


def read(folder: Path) -> Manifest:
    """The manifest of a bundle.

    Raises:
        BundleError: there is none, or it is damaged.
    """
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise BundleError(f"{folder} is no bundle: {NAME}: {error}.") from None


def problems(folder: Path) -> list[str]:
    """What is missing from a bundle or differs from its manifest, in words; empty where all is well.

    Raises:
        BundleError: it has no manifest.
    """
    return [text for file in read(folder).files if (text := _problem(folder / file.path, file))]


def _problem(path: Path, file: File) -> str | None:
    if not path.is_file():
        return f"{file.path} is missing (a virus scanner may have taken it)"
    if path.stat().st_size != file.size or _sha256(path) != file.sha256:
        return f"{file.path} is not the file that was shipped"
    return None


def sizes(files: Iterable[File]) -> dict[str, int]:
    """Bytes per part: the folder below python/packages, or the first folder, or the file itself."""
    totals: dict[str, int] = {}
    for file in files:
        parts = file.path.split("/")
        depth = 3 if parts[:2] == ["python", "packages"] else 2 if parts[0] == "python" else 1
        part = "/".join(parts[:depth])
        totals[part] = totals.get(part, 0) + file.size
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
