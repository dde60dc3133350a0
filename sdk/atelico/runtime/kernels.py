"""Which kernels compute on the CPU: ours (ffi/kernels), or llama.cpp's where ours cannot be hooked in.

One process has one kind: what the first engine asks for, since llama.cpp keeps its kernels once a model was loaded.

Ours give a row the same bits in every company. Of llama.cpp's, a table measured by benchmarks/near_tie.py says which
batches do: blocks of integers with one scale are multiplied alike whatever the number of rows. K- and I-quants go
another way from 8 rows on, and from 4 on where weights are repacked for speed. Floats are summed in another order from
2 rows on. Attention of a single row is split among threads from 257 cells on, and that of many goes another way from 64
rows on, both unless values are quantised.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Collection
from typing import Final, Literal

import llama_cpp

from atelico import _native
from atelico.runtime.processor import prepare_kernels

logger = logging.getLogger(__name__)

Kind = Literal["own", "llama.cpp"]

_SIMPLE: Final = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"})
_FLOATS: Final = frozenset({"F32", "F16", "BF16", "F64"})
EVERY_WIDTH: Final = 1 << 30
MAX_EXACT_ROWS: Final = 63
_MAX_EXACT_ROWS_K: Final = 7

_lock = threading.Lock()
_wanted: Kind | None = None


def choose(kind: Kind) -> None:
    """Ask for `kind`. The first one who asks decides for the process; another wish is only logged."""
    global _wanted
    with _lock:
        if _wanted is None:
            _wanted = kind
        elif kind != _wanted:
            logger.warning('kernels = "%s" comes too late: this process already uses "%s"', kind, _wanted)


@functools.cache
def own_tier() -> str | None:
    """The set of our kernels that this process uses, e.g. "avx512-vnni"; None where llama.cpp's are used.

    Hooks them in at the first call, which must come before the first model is loaded.

    Raises:
        ConfigError: this processor cannot run llama.cpp at all.
    """
    choose(_wanted or "own")
    prepare_kernels()
    if _wanted != "own":
        return None
    try:
        return _native.install_kernels(llama_cpp.llama_cpp._lib._handle)
    except RuntimeError as error:
        logger.warning("llama.cpp's own kernels are used: %s", error)
        return None


def in_use() -> str:
    """What computes on the CPU, for people: "own (avx512-vnni)" or "llama.cpp"."""
    tier = own_tier()
    return f"own ({tier})" if tier else "llama.cpp"


def exact_rows(types: Collection[str], device: str) -> int:
    """Rows up to which a pass computes each as if it were alone; 1 where no width is known to.

    Args:
        types: of the weight matrices.
        device: only the CPU's kernels are known.
    """
    if device != "cpu":
        return 1
    if own_tier():
        return EVERY_WIDTH
    if _FLOATS.intersection(types):
        return 1
    return MAX_EXACT_ROWS if _SIMPLE.issuperset(types) else _MAX_EXACT_ROWS_K


def repacks_exactly(types: Collection[str]) -> bool:
    """Whether weights may be rearranged for speed without a narrower exact batch."""
    return own_tier() is not None or _SIMPLE.union(_FLOATS).issuperset(types)
