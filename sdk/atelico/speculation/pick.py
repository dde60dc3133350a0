"""How a network's row becomes a draft token: with the random numbers that will verify it.

The lane's sampler takes the token with the largest logit / temperature + noise, the noise being a function of seed,
position and token. A drafter that adds the same noise to its own logits agrees with the model as often as two samples
can that do not know of each other's distribution, within (1 - d) / (1 + d) for distributions d apart in total variation
(Daliri et al., arXiv 2408.07978), where the drafter's likeliest token would agree only as often as it is drawn. And the
answer stays the very one of plain decoding, which rejection sampling would change. Greedy requests have no noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atelico._native import Sampler
from atelico.runtime.context import Logits

# (row of a network's logits, position of the token in the answer) -> token
Pick = Callable[[Logits, int], int]


def greedy(row: Logits, _position: int) -> int:
    """The likeliest token."""
    return int(np.argmax(row))


def as_sampled_by(sampler: Sampler, n_vocab: int) -> Pick:
    """What `sampler`, whose rows have `n_vocab` logits, would take. Its history does not include the draft so far."""

    def pick(row: Logits, position: int) -> int:
        if len(row) > n_vocab:
            row = row[:n_vocab]
        elif len(row) < n_vocab:  # vocabularies of one family differ in their padding
            row = np.concatenate([row, np.full(n_vocab - len(row), -np.inf, np.float32)])
        return sampler.sample(row, position=position).token

    return pick
