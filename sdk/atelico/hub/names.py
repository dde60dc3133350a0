"""What "org/repo:quant" means: which files of a repository make up the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from atelico.errors import InvalidRequestError, ModelNotFoundError
from atelico.models.catalog import QUANT_ORDER

_NAME = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?::([\w.-]+))?")
_QUANT = re.compile(rf"[-._](?:UD-)?({'|'.join(sorted(QUANT_ORDER, key=len, reverse=True))})$", re.IGNORECASE)
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")


@dataclass(frozen=True)
class Wanted:
    """A repository, and the quantisation asked for or ""."""

    repo: str
    quant: str


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository. `sha256` is "" where the hub does not say it."""

    path: str
    size: int
    sha256: str


def parse_name(text: str) -> Wanted:
    """The parts of "org/repo" or "org/repo:quant".

    Raises:
        InvalidRequestError: it is neither.
    """
    match = _NAME.fullmatch(text.strip())
    if match is None or ".." in text:
        raise InvalidRequestError(
            f"{text!r} is no name of a model on a hub.", hint="Write org/repo or org/repo:Q4_K_M.", param="model"
        )
    return Wanted(match[1], match[2] or "")


def choose_files(wanted: Wanted, files: Sequence[RemoteFile]) -> list[RemoteFile]:
    """The files of one model among `files`: the quantisation asked for, else the best of QUANT_ORDER; of a model in
    parts all of them, the first one first.

    Raises:
        ModelNotFoundError: there is no such file; the message lists what there is.
    """
    models: dict[str, list[RemoteFile]] = {}
    for file in sorted(files, key=lambda file: file.path):
        path = PurePosixPath(file.path)
        is_safe = not path.is_absolute() and ".." not in path.parts and "\\" not in file.path
        if path.suffix.lower() == ".gguf" and not path.name.lower().startswith("mmproj") and is_safe:
            models.setdefault(_SPLIT.sub("", file.path[: -len(path.suffix)]), []).append(file)
    fitting = [name for name in models if not wanted.quant or _quant(name).lower() == wanted.quant.lower()]
    if not fitting:
        there = ", ".join(sorted({_quant(name) or PurePosixPath(name).name for name in models})) or "no .gguf file"
        asked = f" of quantisation {wanted.quant}" if wanted.quant else ""
        raise ModelNotFoundError(f"{wanted.repo} has no model{asked}.", hint=f"There is: {there}.", param="model")
    return models[min(fitting, key=_rank)]


def _quant(name: str) -> str:
    match = _QUANT.search(name)
    return match[1].upper() if match else ""


def _rank(name: str) -> tuple[int, str]:
    quant = _quant(name)
    return (QUANT_ORDER.index(quant) if quant in QUANT_ORDER else len(QUANT_ORDER), name)
