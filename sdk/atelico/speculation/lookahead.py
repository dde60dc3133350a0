"""Lookahead: draft from a pool of n-grams that this model produced earlier, in this request and in former ones.

The pool idea is that of Lookahead Decoding (Fu et al., arXiv 2402.02057); its Jacobi window is left out, since it needs
dozens of extra rows per round, which only a large GPU has to spare.
"""

from __future__ import annotations

from collections.abc import Sequence

from atelico.speculation.ngram_pool import LONGEST, NgramPool


class Lookahead:
    """Drafts along the pool, one n-gram to the next, and feeds it with this request's output."""

    name = "lookahead"
    source = "pool"

    def __init__(self, pool: NgramPool, n_prompt: int) -> None:
        """`n_prompt`: how many of the observed tokens are the prompt, which only gives context to the first n-grams."""
        self.match = 0
        self._pool = pool
        self._n_prompt = n_prompt
        self._n_seen = 0
        self._tail: list[int] = []

    def observe(self, tokens: Sequence[int]) -> None:
        """Feed the pool with the output among `tokens`."""
        for token in tokens:
            if self._n_seen >= self._n_prompt:
                self._pool.learn(self._tail, token)
            self._tail = [*self._tail[-(LONGEST - 1) :], token]
            self._n_seen += 1

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """Follow the pool from the end of the context, at most `budget` steps."""
        guess, self.match = self._pool.chain([*self._tail, *ahead], budget)
        return guess
