"""Which batches give every row the bits it has alone, on llama.cpp's CPU kernels: a table, measured by
benchmarks/near_tie.py.

Blocks of integers with one scale are multiplied alike whatever the number of rows. K- and I-quants go another way from
8 rows on, and from 4 on where weights are repacked for speed. Floats are summed in another order from 2 rows on.
Attention of a single row is split among threads from 257 cells on, and that of many goes another way from 64 rows on,
both unless values are quantised.
"""

from __future__ import annotations

from collections.abc import Collection

_SIMPLE = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"})
_FLOATS = frozenset({"F32", "F16", "BF16", "F64"})
MAX_EXACT_ROWS = 63
_MAX_EXACT_ROWS_K = 7


def exact_rows(types: Collection[str], device: str) -> int:
    """Rows up to which a pass computes each as if it were alone; 1 where no width is known to.

    Args:
        types: of the weight matrices.
        device: only the CPU's kernels are known.
    """
    if device != "cpu" or _FLOATS.intersection(types):
        return 1
    return MAX_EXACT_ROWS if _SIMPLE.issuperset(types) else _MAX_EXACT_ROWS_K


def repacks_exactly(types: Collection[str]) -> bool:
    """Whether weights may be repacked for speed without a narrower exact batch."""
    return _SIMPLE.union(_FLOATS).issuperset(types)
