"""The gauge learns from rows that were decoded twice which batches are as good as single rows."""

from __future__ import annotations

import numpy as np
import pytest

from atelico.decoding.near_tie import NEAR_TIE, NoiseGauge
from atelico.runtime import kernels
from atelico.runtime.kernels import MAX_EXACT_ROWS, exact_rows, repacks_exactly

# Our kernels have no near ties; tests/kernels/test_llama_cpp_kernels.py runs these in a process of their own.
pytestmark = pytest.mark.skipif(kernels.own_tier() is not None, reason="for llama.cpp's kernels")

SAME = np.array([1.0, 2.0, 3.0], np.float32)
OTHER = np.array([1.0, 2.0, 3.1], np.float32)


def observed(gauge: NoiseGauge, n_rows: int, row: np.ndarray, times: int = 1, n_cells: int = 100) -> NoiseGauge:
    for _ in range(times):
        gauge.observe(n_rows, n_cells, row, SAME)
    return gauge


def test_a_single_row_is_never_a_near_tie() -> None:
    assert NoiseGauge().threshold(1, 10_000) == 0.0


def test_a_width_is_guarded_until_it_has_shown_to_be_exact() -> None:
    gauge = NoiseGauge()
    assert gauge.threshold(4, 100) == NEAR_TIE
    observed(gauge, 4, SAME, 11)
    assert gauge.threshold(4, 100) == NEAR_TIE
    observed(gauge, 4, SAME)
    assert gauge.threshold(4, 100) == 0.0


def test_what_is_exact_in_a_wide_batch_is_exact_in_a_narrow_one_but_not_in_a_wider_one() -> None:
    gauge = observed(NoiseGauge(), 6, SAME, 12)
    assert gauge.threshold(2, 100) == 0.0
    assert gauge.threshold(7, 100) == NEAR_TIE


def test_one_row_with_other_bits_outweighs_all_others() -> None:
    gauge = observed(observed(NoiseGauge(), 8, SAME, 50), 6, OTHER)
    assert gauge.threshold(6, 100) == gauge.threshold(8, 100) == NEAR_TIE
    assert gauge.threshold(5, 100) == 0.0


def test_long_memory_is_judged_apart() -> None:
    gauge = observed(NoiseGauge(), 6, SAME, 12)
    assert gauge.threshold(6, 1_000) == NEAR_TIE
    assert observed(gauge, 6, SAME, 12, n_cells=1_000).threshold(6, 1_000) == 0.0


@pytest.mark.parametrize(
    ("types", "rows", "repacks"),
    [
        ({"Q4_0", "Q8_0"}, MAX_EXACT_ROWS, True),
        ({"Q5_0", "Q4_K", "Q6_K", "Q8_0"}, 7, False),
        ({"IQ4_NL"}, 7, False),
        ({"Q8_0", "F32"}, 1, True),
        ({"F16"}, 1, True),
    ],
    ids=["simple", "k-quants", "i-quants", "some floats", "floats"],
)
def test_the_types_of_the_weights_say_how_wide_a_batch_may_be(types: set[str], rows: int, repacks: bool) -> None:
    assert exact_rows(types, "cpu") == rows
    assert repacks_exactly(types) == repacks
    assert exact_rows(types, "cuda") == 1
