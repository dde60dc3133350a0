"""pull: a model's files from a hub into a model folder. Interrupted downloads go on where they stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import build_hf_headers, tqdm  # type: ignore[attr-defined]

from atelico.errors import AtelicoError, ConfigError, ModelNotFoundError
from atelico.hub.names import RemoteFile, Wanted, choose_files, parse_name

_SPARE_BYTES = 256 << 20  # left free for everyone else
_BLOCK_BYTES = 1 << 20
_TIMEOUT_S = 20.0

# (file, bytes done, bytes in all), called often while a file arrives.
Progress = Callable[[str, int, int], None]


class DownloadError(AtelicoError):
    """The hub does not answer, or what it sent is damaged."""

    code = "download_failed"
    http_status = 502
    c_result = -3


class DiskFullError(ConfigError):
    """There is not enough room for the model."""

    code = "disk_full"


def pull(name: str, folder: Path, on_progress: Progress = lambda *_: None) -> Path:
    """Download the model `name` into `folder`/org/repo and return its (first) file. What is there already is kept.

    The hub is the one of `HF_ENDPOINT`, a token that of `HF_TOKEN` or of `hf auth login`.

    Args:
        name: "org/repo" or "org/repo:quant".

    Raises:
        InvalidRequestError: `name` is no such name.
        ModelNotFoundError: the hub has no such model, or does not show it to us.
        DiskFullError: not enough room; nothing was downloaded.
        DownloadError: the hub failed, or a checksum is wrong; the damaged file has been removed.
    """
    wanted = parse_name(name)
    files = choose_files(wanted, _list_files(wanted))
    target = folder.joinpath(*wanted.repo.split("/"))
    missing = [file for file in files if not _is_complete(target / file.path, file)]
    _check_room(target, missing)
    for file in missing:
        _download(wanted, file, target, on_progress)
    return target / files[0].path


def _list_files(wanted: Wanted) -> list[RemoteFile]:
    try:
        info = HfApi(endpoint=_endpoint()).model_info(wanted.repo, files_metadata=True, timeout=_TIMEOUT_S)
    except GatedRepoError:
        raise ModelNotFoundError(
            f"{wanted.repo} asks for its licence to be accepted first.",
            hint="Accept it on the hub's page, then log in with 'hf auth login' or set HF_TOKEN.",
            param="model",
        ) from None
    except RepositoryNotFoundError:
        raise ModelNotFoundError(
            f"There is no model {wanted.repo} on {_endpoint()}, or it is private.",
            hint="Check its name.",
            param="model",
        ) from None
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise _failed(error) from None
    return [
        RemoteFile(sibling.rfilename, sibling.size or 0, (sibling.lfs.sha256 if sibling.lfs else None) or "")
        for sibling in info.siblings or ()
    ]


def _is_complete(path: Path, file: RemoteFile) -> bool:
    # A file gets its name only once its checksum was right.
    return path.is_file() and path.stat().st_size == file.size


def _check_room(target: Path, files: list[RemoteFile]) -> None:
    existing = next(parent for parent in (target, *target.parents) if parent.exists())
    needed = sum(file.size - _size(_part(target, file)) for file in files)
    free = shutil.disk_usage(existing).free
    if files and needed + _SPARE_BYTES > free:
        raise DiskFullError(
            f"The model needs {needed / 1e9:.2f} GB on {existing}, where {free / 1e9:.2f} GB are free.",
            hint="Make room, or choose another folder or a smaller quantisation.",
        )


def _download(wanted: Wanted, file: RemoteFile, target: Path, on_progress: Progress) -> None:
    part = _part(target, file)
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as stream:
            http_get(
                hf_hub_url(wanted.repo, file.path, endpoint=_endpoint()),
                stream,
                resume_size=part.stat().st_size,
                headers=build_hf_headers(),
                expected_size=file.size or None,
                tqdm_class=_reporting(file, on_progress),
            )
        if file.sha256 and _sha256(part) != file.sha256:
            part.unlink()
            raise DownloadError(
                f"{file.path} arrived damaged: its checksum is wrong.", hint="Pull it again; it was removed."
            )
        part.replace(target / file.path)
    except OSError as error:
        raise _failed(error) from None
    except (HfHubHTTPError, httpx.HTTPError) as error:
        raise _failed(error) from None


def _part(target: Path, file: RemoteFile) -> Path:
    """Where the file grows: named after its content too, so that a changed file on the hub is not appended to."""
    path = target / file.path
    return path.with_name(f"{path.name}.{file.sha256[:12] or file.size}.part")


def _reporting(file: RemoteFile, on_progress: Progress) -> type[tqdm]:
    """A tqdm bar that shows nothing and tells `on_progress`."""

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("name", None)  # huggingface-hub's own
            self._done = int(kwargs.get("initial") or 0)
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            self._done += int(n or 0)
            on_progress(file.path, self._done, file.size)

    return Bar


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _endpoint() -> str:
    # Read at every call: huggingface-hub reads it once, at its import.
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _failed(error: Exception) -> AtelicoError:
    return DownloadError(
        f"The download from {_endpoint()} failed: {str(error) or type(error).__name__}.",
        hint="Check the network and HF_ENDPOINT, and pull again: what has arrived is kept.",
    )
