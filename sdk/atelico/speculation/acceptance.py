"""The acceptance rule "stochastic": drafts may change the text of a seed, but never the distribution of texts.

A drafted token x that was drawn from the distribution q is accepted with probability min(1, p(x) / q(x)), where p is
the distribution that the model's own sampler draws from. Otherwise a token drawn from max(0, p - q), renormalised,
comes in its place, and the rest of the draft is dropped. Either way what comes is distributed as p (speculative
sampling: Leviathan et al. 2023, arXiv 2211.17192, section 2.3; Chen et al. 2023, arXiv 2302.01318). A token that was
looked up was certain to be drafted: its q has all on itself.

The proof needs that whether a token is verified does not depend on which token was drawn: a draft of drawn tokens is
never cut for what is in it. compose.py and the drafters keep to that.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from atelico._native import Sampled, Sampler
from atelico.runtime.context import Logits
from atelico.speculation.draft import Distribution

Mask = npt.NDArray[np.int32]


class Purpose(IntEnum):
    """What a random number of a position is for, besides the sampler's own draw: one decision each."""

    DRAFT = 0
    ACCEPT = 1
    REMAINDER = 2


def distribution(sampler: Sampler, row: Logits, mask: Mask | None = None) -> Distribution:
    """What `sampler` draws from where the logits are `row`: after every option and `mask`, as they are now."""
    shares = np.empty(len(row))
    sampler.probabilities(row, mask, out=shares)
    return shares


def draw(weights: Distribution, uniform: float) -> int:
    """The token at `uniform`, between 0 and 1, of the cumulated `weights`, which need not sum to 1. Never one of 0."""
    cumulated = np.cumsum(weights)
    return int(np.searchsorted(cumulated, uniform * cumulated[-1], side="right"))


def accepted_or_redrawn(p: Distribution, token: int, q: Distribution | None, accept: float, redraw: float) -> int:
    """The rule itself: `token`, or another that is drawn in its place.

    Args:
        p: of the model's sampler.
        token: drafted.
        q: what it was drawn from; None where it was looked up.
        accept, redraw: uniform numbers between 0 and 1, for the two decisions.
    """
    if accept * (1.0 if q is None else q[token]) < p[token]:
        return token
    if q is None:
        remainder = p.copy()
        remainder[token] = 0.0
    else:
        remainder = np.maximum(p - q, 0.0)
    return draw(remainder if remainder.any() else p, redraw)  # nothing remains where p and q differ by rounding only


def verified(
    sampler: Sampler,
    row: Logits,
    mask: Mask | None,
    token: int,
    q: Distribution | None,
    *,
    position: int,
    n_logprobs: int | None,
) -> Sampled:
    """What comes where `token` was drafted: the same token exactly if it is accepted.

    Args:
        sampler: the lane's; `row`, `mask`, `position` and `n_logprobs` as for its `sample`.
        q: as in the rule.
    """
    p = distribution(sampler, row, mask)
    accept, redraw = (sampler.uniform(position, purpose) for purpose in (Purpose.ACCEPT, Purpose.REMAINDER))
    came = accepted_or_redrawn(p, token, q, accept, redraw)
    return sampled_as(sampler, row, came, position=position, n_logprobs=n_logprobs)


def sampled_as(sampler: Sampler, row: Logits, token: int, *, position: int, n_logprobs: int | None) -> Sampled:
    """`token` as if `sampler` had taken it from `row`."""
    only = np.zeros((len(row) + 31) // 32, np.uint32)
    only[token // 32] = np.uint32(1 << token % 32)
    return sampler.sample(row, only, position=position, n_logprobs=n_logprobs)
