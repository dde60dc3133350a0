"""The header of a GGUF file as plain data: key-value pairs and tensor shapes. What they mean is in gguf.py.

Reads the file in pieces (no mmap: a file cut short while it is mapped would kill the process) and skips over large
arrays, so a vocabulary of 262k tokens costs milliseconds and no memory. Everything is checked before it is used,
with the rules of llama.cpp's own reader (ggml/src/gguf.cpp), so that whatever passes here does not end there.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from atelico.errors import ModelLoadError, ModelNotFoundError
from atelico.models.gguf_tables import FOREIGN_MAGICS, TENSOR_TYPES, TensorType

WINDOW_BYTES: Final = 1 << 18
MAX_PAIRS: Final = 1 << 16
MAX_TENSORS: Final = 1 << 18
MAX_ARRAY: Final = 1 << 24
MAX_STRING_BYTES: Final = 1 << 24
MAX_NAME_BYTES: Final = 1 << 16
MAX_TENSOR_NAME_BYTES: Final = 63  # GGML_MAX_NAME with its NUL
MAX_DIMS: Final = 4
MAX_HEADER_BYTES: Final = 1 << 28  # ten times the largest known
# Longer arrays keep their length only.
KEPT_ARRAY: Final = 1024

_DAMAGED: Final = "Download or copy the file again, and compare its size or checksum with the source's."
_NEWER: Final = "Use a file of this version's formats, or a newer atelico."

_SCALARS: Final[dict[int, struct.Struct]] = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: struct.Struct("<I"),
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: struct.Struct("<Q"),
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
_STRING: Final = 8
_ARRAY: Final = 9
_U32: Final = _SCALARS[4]
_U64: Final = _SCALARS[10]

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Skipped:
    """An array that was too long to keep: its number of elements."""

    length: int


Value = Scalar | tuple[Scalar, ...] | Skipped


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor. `shape` has ggml's order (fastest dimension first); `offset` counts from the data section."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int

    @property
    def n_elements(self) -> int:
        """The product of the shape; 1 for a scalar."""
        product = 1
        for n in self.shape:
            product *= n
        return product

    @property
    def n_bytes(self) -> int:
        """The bytes the data takes, without padding."""
        return self.n_elements // self.type.block * self.type.size


@dataclass(frozen=True, slots=True)
class Header:
    """All a GGUF says before its weights. `values` keeps the file's order."""

    path: Path
    size_bytes: int
    version: int
    values: dict[str, Value]
    tensors: tuple[Tensor, ...]


def load_error(path: Path, problem: str, hint: str = _DAMAGED) -> ModelLoadError:
    """The error for an unusable file: `problem` completes "The model file PATH ..."."""
    return ModelLoadError(f"The model file {path} {problem}.", hint=hint, param="model")


def read_header(path: Path) -> Header:
    """The header of the GGUF at `path`.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelLoadError: the file cannot be read, is not a GGUF this version reads, or is damaged.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise load_error(path, "is a folder", "Name the .gguf file inside it.")
        if not stat.S_ISREG(mode):  # a pipe would block for ever
            raise load_error(path, "is not an ordinary file", "Name a .gguf file.")
        with path.open("rb") as file:
            size = file.seek(0, 2)
            return _parse(path, size, file)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the path
        raise ModelNotFoundError(
            f"There is no model file {path}.", hint="Check the path; it is shown as resolved here.", param="model"
        ) from None
    except OSError as error:
        raise load_error(path, f"cannot be read: {error.strerror or error}", "Check its permissions.") from None


class _Cursor:
    """A position in the file, with the bytes around it. It lives as long as one read_header call."""

    def __init__(self, path: Path, size: int, file: BinaryIO) -> None:
        self.path, self.size, self._file = path, size, file
        self._base, self._window, self._pos = 0, b"", 0

    def tell(self) -> int:
        return self._base + self._pos

    def _need(self, n: int, what: str) -> None:
        """Makes the next `n` bytes lie in the window."""
        if self._pos + n <= len(self._window):
            return
        start = self.tell()
        self._check_end(start + n, what)
        self._file.seek(start)
        self._base, self._pos = start, 0
        self._window = self._file.read(max(n, WINDOW_BYTES))
        if len(self._window) < n:
            raise load_error(self.path, f"became shorter while it was read, at {what}")

    def _check_end(self, end: int, what: str) -> None:
        if end > self.size:
            raise load_error(self.path, f"ends inside its header, at {what}: it is truncated or damaged")
        if end > MAX_HEADER_BYTES:
            raise load_error(self.path, f"has a header of more than {MAX_HEADER_BYTES} bytes: it is damaged")

    def raw(self, n: int, what: str) -> bytes:
        self._need(n, what)
        start = self._pos
        self._pos += n
        return self._window[start : self._pos]

    def scalar(self, kind: struct.Struct, what: str) -> int | float | bool:
        self._need(kind.size, what)
        value: int | float | bool = kind.unpack_from(self._window, self._pos)[0]
        self._pos += kind.size
        return value

    def u32(self, what: str) -> int:
        return int(self.scalar(_U32, what))

    def u64(self, what: str) -> int:
        return int(self.scalar(_U64, what))

    def string(self, what: str, limit: int = MAX_STRING_BYTES) -> str:
        n = self.u64(what)
        if n > limit:
            raise load_error(self.path, f"has a text of {n} bytes at {what}, where at most {limit} are possible")
        return self.raw(n, what).decode(errors="replace")

    def skip(self, n: int, what: str) -> None:
        self._check_end(self.tell() + n, what)
        self._pos += n

    def skip_strings(self, count: int, what: str) -> None:
        """Jumps over `count` strings; the loop is the reader's hot spot."""
        length_of = _U64.unpack_from
        while count:
            self._need(8, what)
            window, pos, last = self._window, self._pos, len(self._window) - 8
            while count and pos <= last:
                pos += 8 + length_of(window, pos)[0]
                count -= 1
            self._pos = pos
        self.skip(0, what)


def _parse(path: Path, size: int, file: BinaryIO) -> Header:
    cursor = _Cursor(path, size, file)
    version = _check_magic(cursor)
    n_tensors = cursor.u64("the number of tensors")
    n_pairs = cursor.u64("the number of metadata entries")
    if n_tensors > MAX_TENSORS:
        raise load_error(path, f"claims {n_tensors} tensors, more than any model has: it is damaged")
    if n_pairs > MAX_PAIRS:
        raise load_error(path, f"claims {n_pairs} metadata entries, more than any model has: it is damaged")
    values: dict[str, Value] = {}
    for i in range(n_pairs):
        key = cursor.string(f"metadata entry {i}", MAX_NAME_BYTES)
        if not key or key in values:
            raise load_error(path, f"has {'a repeated' if key else 'an empty'} metadata key at entry {i} {key!r}")
        values[key] = _value(cursor, key)
    tensors = _tensors(cursor, n_tensors)
    _check_layout(path, size, cursor.tell(), values, tensors)
    return Header(path, size, version, values, tensors)


def _check_magic(cursor: _Cursor) -> int:
    """The version, where the file is a GGUF of a kind llama.cpp reads."""
    path, size = cursor.path, cursor.size
    if size == 0:
        raise load_error(path, "is empty")
    start = cursor.raw(min(size, 64), "the first bytes")
    if not start.startswith(b"GGUF"):
        for magic, what in FOREIGN_MAGICS:
            if start.lstrip().startswith(magic):
                raise load_error(path, f"is not a GGUF: it is {what}", "Use a file in GGUF format.")
        raise load_error(path, f"is not a GGUF: it starts with {start[:8]!r}", "Use a file in GGUF format.")
    if size < 24:
        raise load_error(path, f"has only {size} bytes: it is truncated")
    version = _U32.unpack_from(start, 4)[0]
    if version & 0xFFFF == 0 and version:
        raise load_error(path, "is a big-endian GGUF", "Use the little-endian file, or convert this one.")
    if version in (0, 1):
        raise load_error(path, f"is a GGUF of version {version}, which llama.cpp no longer reads", "Convert it again.")
    if version > 3:
        raise load_error(path, f"is a GGUF of version {version}; versions 2 and 3 are known", _NEWER)
    cursor.skip(8 - cursor.tell(), "the version")
    return int(version)


def _value(cursor: _Cursor, key: str) -> Value:
    """The value of one pair."""
    what = f"the value of {key!r}"
    type_id = cursor.u32(what)
    if type_id == _STRING:
        return cursor.string(what)
    if type_id in _SCALARS:
        return cursor.scalar(_SCALARS[type_id], what)
    if type_id != _ARRAY:
        raise load_error(cursor.path, f"has an unknown type {type_id} at {key!r}: it is damaged")
    item, count = cursor.u32(what), cursor.u64(what)
    if item != _STRING and item not in _SCALARS:
        raise load_error(cursor.path, f"has an array of the invalid type {item} at {key!r}: it is damaged")
    if count > MAX_ARRAY:
        raise load_error(cursor.path, f"claims {count} elements at {key!r}, more than possible: it is damaged")
    if item == _STRING:
        if count <= KEPT_ARRAY:
            return tuple(cursor.string(what) for _ in range(count))
        cursor.skip_strings(count, what)
        return Skipped(count)
    kind = _SCALARS[item]
    if count <= KEPT_ARRAY:
        return tuple(cursor.scalar(kind, what) for _ in range(count))
    cursor.skip(kind.size * count, what)
    return Skipped(count)


def _tensors(cursor: _Cursor, n_tensors: int) -> tuple[Tensor, ...]:
    tensors: list[Tensor] = []
    names: set[str] = set()
    for i in range(n_tensors):
        name = cursor.string(f"the name of tensor {i}", MAX_TENSOR_NAME_BYTES)
        if name in names:
            raise load_error(cursor.path, f"has two tensors named {name!r}: it is damaged")
        names.add(name)
        what = f"tensor {name!r}"
        n_dims = cursor.u32(what)
        if n_dims > MAX_DIMS:
            raise load_error(cursor.path, f"claims {n_dims} dimensions for {what}: it is damaged")
        shape = tuple(cursor.u64(what) for _ in range(n_dims))
        type_id = cursor.u32(what)
        tensor_type = TENSOR_TYPES.get(type_id)
        if tensor_type is None:
            raise load_error(cursor.path, f"stores {what} in the unknown type {type_id}", _NEWER)
        tensor = Tensor(name, shape, tensor_type, cursor.u64(what))
        if tensor.n_elements >= 1 << 63 or (shape[0] if shape else 1) % tensor_type.block:
            raise load_error(cursor.path, f"has the impossible shape {shape} for {what}: it is damaged")
        tensors.append(tensor)
    return tuple(tensors)


def _check_layout(path: Path, size: int, end: int, values: dict[str, Value], tensors: tuple[Tensor, ...]) -> None:
    """Tensor data must lie one after the other, padded, and inside the file."""
    alignment = values.get("general.alignment", 32)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise load_error(path, f"has the impossible general.alignment {str(alignment)[:40]}: it is damaged")
    data = _padded(end, alignment)
    expected = 0
    for tensor in tensors:
        if tensor.offset != expected:
            raise load_error(path, f"places tensor {tensor.name!r} at {tensor.offset}, not {expected}: it is damaged")
        if data + expected + tensor.n_bytes > size:
            whole = data + _data_bytes(tensors, alignment)
            raise load_error(
                path, f"is truncated: it has {size} bytes, its tensors need {whole} (tensor {tensor.name!r} is cut)"
            )
        expected += _padded(tensor.n_bytes, alignment)


def _data_bytes(tensors: tuple[Tensor, ...], alignment: int) -> int:
    return sum(_padded(tensor.n_bytes, alignment) for tensor in tensors)


def _padded(n: int, alignment: int) -> int:
    return (n + alignment - 1) // alignment * alignment
