"""Near ties: which rows of a batch are decided by a pass of their own, and how much noise the kernels have.

A row's logits may have other bits in a batch than alone. NoiseGauge learns from every row that is decoded again whether
that is so here; docs/exactness.md has the measurements behind its numbers.
"""

from __future__ import annotations

from collections import Counter

from atelico.runtime.context import Logits

# In logits. Measured where kernels differ at all: half of the gaps between the best two move by less than 0.1.
NEAR_TIE = 0.1
# So many rows with the very same bits show that a width has no noise. K-quants may repeat a few rows by chance.
_N_PROOFS = 12
# From so many cells on llama.cpp's attention splits the memory of a single row among its threads.
_SPLIT_CELLS = 256


class NoiseGauge:
    """What is known of one model's kernels on this machine. Used by its decode thread only."""

    def __init__(self) -> None:
        self._same: dict[bool, Counter[int]] = {False: Counter(), True: Counter()}
        self._noisy_from: dict[bool, int] = {}

    def threshold(self, n_rows: int, n_cells: int) -> float:
        """The gap, in logits, between the best two candidates below which a row is decided alone.

        Args:
            n_rows: of the whole pass.
            n_cells: of the memory that are in use.

        Returns:
            0 for a pass of one row, and for widths at which the kernels have shown no noise.
        """
        if n_rows == 1:
            return 0.0
        split = n_cells > _SPLIT_CELLS
        if split in self._noisy_from and n_rows >= self._noisy_from[split]:
            return NEAR_TIE
        # A wider pass has at least the noise of a narrower one.
        n_proofs = sum(count for width, count in self._same[split].items() if width >= n_rows)
        return 0.0 if n_proofs >= _N_PROOFS else NEAR_TIE

    def observe(self, n_rows: int, n_cells: int, batched: Logits, alone: Logits) -> None:
        """A row was computed in a pass of `n_rows` and then alone: float32 [n_vocab] both."""
        split = n_cells > _SPLIT_CELLS
        if (batched == alone).all():
            self._same[split][n_rows] += 1
        else:
            self._noisy_from[split] = min(n_rows, self._noisy_from.get(split, n_rows))
