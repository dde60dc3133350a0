"""How a network's row becomes a draft token: as the rule that accepts it needs it.

For the rule "exact", with the random numbers that will verify it. The lane's sampler takes the token with the largest
logit / temperature + noise, the noise being a function of seed, position and token. A drafter that adds the same noise
to its own logits agrees with the model as often as two samples can that do not know of each other's distribution,
within (1 - d) / (1 + d) for distributions d apart in total variation (Daliri et al., arXiv 2408.07978), where the
drafter's likeliest token would agree only as often as it is drawn. And the answer stays the very one of plain decoding,
which rejection sampling would change. Greedy requests have no noise.

For the rule "stochastic", by a draw of its own, from a distribution that is handed on with the token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from atelico._native import Sampler
from atelico.runtime.context import Logits
from atelico.speculation.acceptance import Purpose, distribution, draw
from atelico.speculation.draft import Distribution


class Picked(NamedTuple):
    """A draft token, and the distribution that it was drawn from; None where it is no draw of its own."""

    token: int
    distribution: Distribution | None = None


# (row of a network's logits, position of the token in the answer) -> token
Pick = Callable[[Logits, int], Picked]


def greedy(row: Logits, _position: int) -> Picked:
    """The likeliest token."""
    return Picked(int(np.argmax(row)))


def as_sampled_by(sampler: Sampler, n_vocab: int) -> Pick:
    """What `sampler`, whose rows have `n_vocab` logits, would take. Its history does not include the draft so far."""

    def pick(row: Logits, position: int) -> Picked:
        return Picked(sampler.sample(_fitted(row, n_vocab), position=position).token)

    return pick


def drawn_with(sampler: Sampler, n_vocab: int) -> Pick:
    """A draw from the network's distribution after the options of `sampler`, by a random number of its own."""

    def pick(row: Logits, position: int) -> Picked:
        shares = distribution(sampler, _fitted(row, n_vocab))
        return Picked(draw(shares, sampler.uniform(position, Purpose.DRAFT)), shares)

    return pick


def _fitted(row: Logits, n_vocab: int) -> Logits:
    """`row` with `n_vocab` logits: vocabularies of one family differ in their padding."""
    if len(row) >= n_vocab:
        return row[:n_vocab]
    return np.concatenate([row, np.full(n_vocab - len(row), -np.inf, np.float32)])
