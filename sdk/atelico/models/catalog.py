"""Which file a model name means: aliases, paths, the model folders, and the models of installed pip packages.

Files are found here, never opened; what is in them is gguf.py's, packages are packaged.py's.

A name is looked up in this order; the first that matches wins:
1. an alias of the configuration (it may name another alias);
2. a path to a .gguf file: absolute, relative to the working directory, or beginning with ~;
3. the model folders: the name is compared with each file's path below its folder, its stem, its stem without the
   quantisation, its folder (org/repo or repo); then the same with the name's org part dropped. Case and the choice
   of separator (-, _, ., space, /) don't matter, but the exact spelling goes first. Of several quantisations the
   first in QUANT_ORDER is taken;
4. the models of installed packages, compared in the same way.
"""

from __future__ import annotations

import builtins
import difflib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

from atelico.errors import ConfigError, ModelLoadError, ModelNotFoundError
from atelico.models.gguf import split_number
from atelico.models.packaged import PACKAGED, PackagedModel, assemble, default_cache_dir, installed_parts, model_path

Source = Literal["alias", "path", "folder", "package"]

# Which quantisation a name without one means: small and good first, then upwards, then downwards, then floats.
QUANT_ORDER: Final = (
    *("Q4_K_M", "Q4_0", "Q4_1", "Q4_K_S", "Q4_K_L", "IQ4_XS", "IQ4_NL", "MXFP4", "NVFP4"),
    *("Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0"),
    *("Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS"),
    *("Q2_K", "Q2_K_S", "IQ2_M", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S", "TQ2_0", "TQ1_0", "Q2_0", "Q1_0"),
    *("BF16", "F16", "F32"),
)
_QUANT: Final = re.compile(
    rf"[-._](?:UD-)?({'|'.join(sorted(map(re.escape, QUANT_ORDER), key=len, reverse=True))})$", re.IGNORECASE
)
_SPLIT_SUFFIX: Final = re.compile(r"-\d{5}-of-\d{5}$")
_MAX_DEPTH: Final = 4
_LISTED: Final = 20
_MAX_NAME: Final = 4096  # longer paths exist nowhere


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model that a name means. For an alias, `name` is the alias and `source` says so."""

    name: str
    path: Path
    source: Source


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A file with the names it answers to, best first."""

    ref: ModelRef
    names: tuple[str, ...]
    quant: int
    packaged: PackagedModel | None = None
    parts: tuple[Path, ...] = ()


class Catalog:
    """The names a configuration makes available. Folders are read again at every call, so new files are found."""

    def __init__(
        self,
        aliases: Mapping[str, str] | None = None,
        folders: Sequence[Path | str] = (),
        *,
        cache_dir: Path | None = None,
        packaged: Sequence[PackagedModel] = PACKAGED,
    ) -> None:
        """
        Args:
            aliases: alias -> alias, path or name.
            folders: the model folders, in order of preference.
            cache_dir: where models of several pieces are put together; the user's cache folder where it is None.
            packaged: the pip packages to look for.
        """
        self._aliases = dict(aliases or {})
        self._folders = tuple(Path(folder).expanduser().absolute() for folder in folders)
        self._cache_dir = cache_dir or default_cache_dir()
        self._packaged = tuple(packaged)

    def resolve(self, name: str) -> ModelRef:
        """The file that `name` means; a model in pieces is put together first.

        Raises:
            ModelNotFoundError: nothing has this name; the message says what there is and where it was looked for.
            ModelLoadError: the name leads to something that is no model file, or the pieces cannot be joined.
            ConfigError: aliases run in a circle.
        """
        wanted = _without_prefix(name)
        target = self._follow_aliases(wanted)
        _refuse_elsewhere(target)
        ref = self._path(target) or self._named(target)
        if ref is None:
            self._fail(wanted, target)
        return ref if target == wanted else ModelRef(wanted, ref.path, "alias")

    def list(self) -> builtins.list[ModelRef]:
        """Every model there is, by folder, package and alias. A model in pieces is listed with its future path."""
        refs = [candidate.ref for candidate in self._candidates()]
        for alias in self._aliases:
            try:
                target = self._follow_aliases(alias)
            except (ConfigError, ModelNotFoundError):
                continue  # said when somebody asks for it
            found = self._path(target)
            if found is None and (best := self._best(target)) is not None:
                found = best.ref
            if found is not None:
                refs.append(ModelRef(alias, found.path, "alias"))
        return refs

    def _follow_aliases(self, name: str) -> str:
        seen: dict[str, None] = {}
        while name in self._aliases:
            if name in seen:
                raise ConfigError(
                    f"The model aliases {' -> '.join([*seen, name])} run in a circle.",
                    hint="Let one of them name a file or a model.",
                    param="models",
                )
            seen[name] = None
            name = _without_prefix(self._aliases[name])
        return name

    def _path(self, name: str) -> ModelRef | None:
        """`name` as a path to a .gguf file."""
        path = _as_path(name)
        if path is None or path.suffix.lower() != ".gguf" or not stat.S_ISREG(_mode(path)):
            return None
        return ModelRef(name, path, "path")

    def _named(self, name: str) -> ModelRef | None:
        best = self._best(name)
        if best is None:
            return None
        if best.packaged is not None:
            return ModelRef(best.ref.name, assemble(best.packaged, best.parts, self._cache_dir), "package")
        return best.ref

    def _best(self, name: str) -> _Candidate | None:
        """The candidate that fits `name` best. Folders go before packages, earlier folders before later ones."""
        wanted = [name] if "/" not in name else [name, name.rpartition("/")[2]]
        wanted = [re.sub(r"\.gguf$", "", form, flags=re.IGNORECASE) for form in wanted]
        wanted += [shorter for form in wanted if (shorter := re.sub(r"[-_]GGUF$", "", form, flags=re.I)) != form]
        best: tuple[tuple[bool, int, int, bool, int, int], _Candidate] | None = None
        for order, candidate in enumerate(self._candidates()):
            keys = [_key(known) for known in candidate.names]
            for form, text in enumerate(wanted):
                if (key := _key(text)) in keys:
                    at = keys.index(key)
                    is_package = candidate.packaged is not None
                    rank = (is_package, form, at, text not in candidate.names, candidate.quant, order)
                    if best is None or rank < best[0]:
                        best = rank, candidate
        return best[1] if best else None

    def _candidates(self) -> Iterator[_Candidate]:
        for folder in self._folders:
            for path in _gguf_files(folder):
                yield _in_folder(folder, path)
        for model in self._packaged:
            parts = installed_parts(model)
            if parts is not None:
                ref = ModelRef(model.name, model_path(model, parts, self._cache_dir), "package")
                yield _Candidate(ref, (model.name, Path(model.file_name).stem), 0, model, parts)

    def _fail(self, wanted: str, target: str) -> NoReturn:
        """Says why nothing was found, and what could have been meant."""
        path = _as_path(target)
        mode = 0 if path is None else _mode(path)
        if path is not None and stat.S_ISDIR(mode):
            inside = ", ".join(sorted(file.name for file in path.glob("*.gguf"))[:_LISTED]) or "no .gguf file"
            raise ModelLoadError(
                f"The model {target!r} is the folder {path}.",
                hint=f"Name one file in it (there is: {inside}), or configure it as a model folder.",
                param="model",
            )
        if path is not None and mode and (path.suffix or _looks_like_path(target)):
            raise ModelLoadError(
                f"The model {target!r} is the file {path}, which is no .gguf file.",
                hint="Use a model in GGUF format.",
                param="model",
            )
        names = sorted({*self._aliases, *(candidate.ref.name for candidate in self._candidates())}, key=str.casefold)
        by_key = {_key(name): name for name in names}
        close = difflib.get_close_matches(_key(target.rpartition("/")[2]), by_key, n=3)
        via = "" if target == wanted else f" (alias of {target!r})"
        message = f"There is no model {wanted!r}{via}."
        if path is not None and _looks_like_path(target):
            message += f" There is no file {path}."
        if close:
            message += f" Did you mean {' or '.join(repr(by_key[key]) for key in close)}?"
        listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
        searched = ", ".join(f"{f}{'' if f.is_dir() else ' (does not exist)'}" for f in self._folders) or "none"
        raise ModelNotFoundError(
            message, hint=f"Available: {listed or 'none'}. Model folders searched: {searched}.", param="model"
        )


def _without_prefix(name: str) -> str:
    """`name` without `in-memory::`.

    Raises:
        ModelNotFoundError: the name is empty, absurdly long, or asks for a remote model.
    """
    if len(name) > _MAX_NAME:
        raise ModelNotFoundError(
            f"The model's name has {len(name)} characters; at most {_MAX_NAME} are possible.",
            hint="Name a model or a .gguf file.",
            param="model",
        )
    name = name.strip()
    prefix, separator, rest = name.partition("::")
    if separator and prefix.strip().lower() == "in-memory":
        name = rest.strip()
    elif separator and prefix.strip().lower() == "remote":
        raise ModelNotFoundError(
            f"The model {name!r} is answered by a remote endpoint: it has no file and is not available here.",
            hint="Name a local model: in-memory::NAME or NAME.",
            param="model",
        )
    if not name:
        raise ModelNotFoundError("The model's name is empty.", hint="Name a model or a .gguf file.", param="model")
    return name


def _refuse_elsewhere(name: str) -> None:
    """Places that look like paths, but where no file can be opened."""
    lower = name.lower()
    if lower.startswith("res://") or re.search(r"\.pck(?:$|[/\\])", lower):
        raise ModelNotFoundError(
            f"The model {name!r} lies inside the game's package (.pck), where llama.cpp cannot open it.",
            hint="Copy the .gguf file beside the executable when you export the game, and give that path.",
            param="model",
        )
    if lower.startswith("user://"):
        raise ModelNotFoundError(
            f"The model {name!r} is a path of Godot's.",
            hint="Give the path that ProjectSettings.globalize_path() returns for it.",
            param="model",
        )
    if re.match(r"https?://", lower):
        raise ModelNotFoundError(
            f"The model {name!r} is a web address; models are not downloaded.",
            hint="Download the .gguf file and give its path.",
            param="model",
        )


def _as_path(name: str) -> Path | None:
    """`name` as an absolute path; None where it cannot be one."""
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError):  # the working directory is gone; a home folder that nobody knows
        return None


def _mode(path: Path) -> int:
    """The file's mode, 0 where there is none or nobody may look."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def _looks_like_path(name: str) -> bool:
    return (
        name.lower().endswith(".gguf") or name.startswith(("/", "./", "../", "~", "\\")) or name[1:3] in (":\\", ":/")
    )


def _gguf_files(folder: Path) -> Iterator[Path]:
    """The model files below `folder`, sorted; of a split model the first part, and no projectors."""
    for root, folders, files in os.walk(folder):
        here = Path(root)
        folders.sort()
        if len(here.relative_to(folder).parts) >= _MAX_DEPTH:
            folders.clear()
        for name in sorted(files):
            path = here / name
            split = split_number(path)
            if path.suffix.lower() != ".gguf" or (split is not None and split[0] != 1):
                continue
            if not name.lower().startswith("mmproj") and path.is_file():
                yield path


def _in_folder(folder: Path, path: Path) -> _Candidate:
    inside = path.relative_to(folder).with_suffix("")
    stem = _SPLIT_SUFFIX.sub("", inside.name)
    quant = _QUANT.search(stem)
    base = stem[: quant.start()] if quant else stem
    parents = inside.parent.parts
    whole = "/".join((*parents, stem))
    # org/repo/file.gguf is named by its folders, repo/file.gguf by one. A bare repo never means another org's.
    names = [whole, stem, "/".join((*parents, base)), base]
    if parents:
        names.append("/".join(parents))
    rank = QUANT_ORDER.index(quant[1].upper()) if quant else len(QUANT_ORDER)
    name = whole if parents else stem
    return _Candidate(ModelRef(name, path, "folder"), tuple(dict.fromkeys(names)), rank)


def _key(name: str) -> str:
    """What counts when names are compared."""
    return re.sub(r"[-_. /\\]+", "-", name.casefold())
