"""The G-test: whether what was drawn follows a distribution."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

Cell = TypeVar("Cell", bound=Hashable)


def g_test_p(observed: Counter[Cell], expected: Mapping[Cell, float], n_samples: int = 1) -> float:
    """p-value of the G-test; cells that expect fewer than 5 are pooled (Wilson and Hilferty's approximation).

    Args:
        observed: how often each cell came.
        expected: how often it should have come, on average; what is not in here, or 0, is impossible.
        n_samples: separate samples among the cells, each of a given size.
    """
    if any(expected.get(cell, 0.0) == 0.0 for cell, count in observed.items() if count):
        return 0.0
    large = [cell for cell, count in expected.items() if count >= 5]
    rest = sum(count for cell, count in expected.items() if cell not in large)
    counts = [(observed[cell], expected[cell]) for cell in large]
    if rest > 0:
        counts.append((sum(observed.values()) - sum(count for count, _ in counts), rest))
    statistic = 2 * sum(count * math.log(count / wanted) for count, wanted in counts if count)
    freedom = len(counts) - n_samples
    z = ((statistic / freedom) ** (1 / 3) - (1 - 2 / (9 * freedom))) / math.sqrt(2 / (9 * freedom))
    return 0.5 * math.erfc(z / math.sqrt(2))
