"""A prefix of the memory in a file: a prompt already read, which a game can ship or keep over a restart.

Layout: one line of JSON (the header), the token ids as int32, the memory's state as llama.cpp writes it. The header has
a checksum of the rest and a fingerprint of the model. llama.cpp trusts the state it is given, so a file that does not
fit is refused here, with the reason.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from atelico.errors import PrefixError
from atelico.runtime.library import llama_version

_MAGIC = "atelico-prefix"
_VERSION = 1
_MAX_HEADER = 4096
# Enough of a model file to tell models apart: metadata and tokenizer at its start, weights at its end.
_FINGERPRINT_BYTES = 1 << 20


@dataclass(frozen=True)
class SavedPrefix:
    """Tokens, and the memory's state after them."""

    tokens: list[int]
    state: bytes


class _Header(msgspec.Struct):
    magic: str
    version: int
    llama_cpp: str
    model: str
    n_tokens: int
    state_bytes: int
    sha256: str


def fingerprint(model: Path) -> str:
    """Identifies a model file by its size, its first and its last megabyte."""
    size = model.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with model.open("rb") as file:
        digest.update(file.read(_FINGERPRINT_BYTES))
        file.seek(max(0, size - _FINGERPRINT_BYTES))
        digest.update(file.read(_FINGERPRINT_BYTES))
    return digest.hexdigest()


def write(path: Path, prefix: SavedPrefix, model: Path) -> None:
    """Write `prefix` of `model` to `path`, whole or not at all.

    Raises:
        PrefixError: the file cannot be written.
    """
    body = np.asarray(prefix.tokens, np.int32).tobytes() + prefix.state
    header = _Header(
        magic=_MAGIC,
        version=_VERSION,
        llama_cpp=llama_version(),
        model=fingerprint(model),
        n_tokens=len(prefix.tokens),
        state_bytes=len(prefix.state),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(header) + b"\n" + body)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PrefixError(f"The prefix cannot be written to {path}: {error.strerror}.") from None


def read(path: Path, model: Path) -> SavedPrefix:
    """The prefix in `path`, if it belongs to `model` and this version.

    Raises:
        PrefixError: missing, damaged, of another model or of another version.
    """

    def refuse(reason: str, hint: str = "Save the prefix again.") -> PrefixError:
        return PrefixError(f"The saved prefix {path} {reason}.", hint=hint)

    try:
        with path.open("rb") as file:
            line = file.readline(_MAX_HEADER)
            body = file.read()
    except OSError as error:
        raise refuse(f"cannot be read: {error.strerror}", "Check the path.") from None
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise refuse("is not a saved prefix", "Name a file that save_prefix has written.") from None
    if header.magic != _MAGIC or header.version != _VERSION:
        raise refuse(f"has version {header.version} of its format; this is version {_VERSION}")
    if header.llama_cpp != llama_version():
        raise refuse(f"was written with llama.cpp {header.llama_cpp}; this is {llama_version()}")
    if header.model != fingerprint(model):
        raise refuse(f"belongs to another model than {model.name}")
    token_bytes = header.n_tokens * np.dtype(np.int32).itemsize
    if header.n_tokens < 1 or len(body) != token_bytes + header.state_bytes:
        raise refuse("is truncated or has been changed")
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise refuse("has been changed since it was written")
    return SavedPrefix(np.frombuffer(body[:token_bytes], np.int32).tolist(), body[token_bytes:])
