"""The state of a sequence, its cells sorted by position.

llama.cpp writes cells in the order in which they lie in memory, which after other requests need not be that of their
positions. Restored, they are read in the order in which they were written, so a text would depend on what the engine
did before. The layout is that of `llama_kv_cache::state_write` (llama.cpp, src/llama-kv-cache.cpp) for one stream
without transposed values, once per part of the memory (all tokens, and those of a sliding window).
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

_MAGIC: Final = 0xAF143CD8
_HEADER: Final = struct.Struct("<Ii")  # magic number, sequence
_PART: Final = struct.Struct("<II")  # streams, cells
_LAYERS: Final = struct.Struct("<II")  # whether values are transposed, layers
_ROWS: Final = struct.Struct("<iQ")  # type, bytes of a cell
_CELL: Final = np.dtype([("position", "<i4"), ("n_sequences", "<u4"), ("sequence", "<i4")])


class _UnknownLayoutError(Exception):
    """The state is laid out otherwise."""


def in_position_order(state: bytes) -> bytes:
    """`state` with the cells of each part sorted by position; as it is where its layout is another."""
    ordered = bytearray(state)
    at = _HEADER.size
    try:
        if _HEADER.unpack_from(state)[0] != _MAGIC:
            return state
        while at < len(state):
            at = _order_part(state, ordered, at)
    except (_UnknownLayoutError, struct.error, ValueError):
        return state
    return bytes(ordered)


def _order_part(state: bytes, ordered: bytearray, at: int) -> int:
    """Sort the part at `at`; returns where it ends."""
    n_streams, n_cells = _PART.unpack_from(state, at)
    at += _PART.size
    if n_streams != 1:
        raise _UnknownLayoutError
    if n_cells == 0:
        return at
    cells = np.frombuffer(state, _CELL, n_cells, at)
    if (cells["n_sequences"] != 1).any():
        raise _UnknownLayoutError
    order = np.argsort(cells["position"], kind="stable")
    ordered[at : at + cells.nbytes] = cells[order].tobytes()
    at += cells.nbytes
    is_transposed, n_layers = _LAYERS.unpack_from(state, at)
    at += _LAYERS.size
    if is_transposed:
        raise _UnknownLayoutError
    for _ in range(2 * n_layers):  # keys of all layers, then values of all
        _type, n_bytes = _ROWS.unpack_from(state, at)
        at += _ROWS.size
        rows = np.frombuffer(state, np.uint8, n_cells * n_bytes, at).reshape(n_cells, n_bytes)
        ordered[at : at + rows.nbytes] = rows[order].tobytes()
        at += rows.nbytes
    return at
