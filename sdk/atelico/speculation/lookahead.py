"""Lookahead: draft from a pool of n-grams that this model produced earlier, in this request and in former ones.

The pool idea is that of Lookahead Decoding (Fu et al., arXiv 2402.02057); its Jacobi window is left out, since it needs
dozens of extra rows per round, which only a large GPU has to spare.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

NGRAM_SIZES = (3, 2)
# Two entries per token of output: about 100,000 tokens of memory, some 30 MB of Python objects at worst.
POOL_ENTRIES = 200_000


class NgramPool:
    """The token that last followed each n-gram of this model's output; the least recently used entries go first.

    Shared by the requests of one model and touched only by its decode thread. It never puts text into an answer: what
    is drafted from it is verified like any other draft.
    """

    def __init__(self, capacity: int = POOL_ENTRIES) -> None:
        self._capacity = capacity
        self._next: OrderedDict[tuple[int, ...], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._next)

    def add(self, ngram: tuple[int, ...], token: int) -> None:
        """Remember that `token` followed `ngram`."""
        self._next[ngram] = token
        self._next.move_to_end(ngram)
        if len(self._next) > self._capacity:
            self._next.popitem(last=False)

    def follow(self, tail: Sequence[int]) -> tuple[int, int] | None:
        """The token that last followed the longest known n-gram at the end of `tail`, and that n-gram's length."""
        for size in NGRAM_SIZES:
            ngram = tuple(tail[-size:])
            token = self._next.get(ngram) if len(ngram) == size else None
            if token is not None:
                self._next.move_to_end(ngram)
                return token, size
        return None


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
                for size in NGRAM_SIZES:
                    if len(self._tail) >= size:
                        self._pool.add(tuple(self._tail[-size:]), token)
            self._tail = [*self._tail[-(NGRAM_SIZES[0] - 1) :], token]
            self._n_seen += 1

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """Follow the pool from the end of the context, at most `budget` steps."""
        tail = [*self._tail, *ahead][-NGRAM_SIZES[0] :]
        guess: list[int] = []
        while len(guess) < budget:
            found = self._pool.follow(tail)
            if found is None:
                break
            token, size = found
            if not guess:
                self.match = size
            guess.append(token)
            tail = [*tail[-(NGRAM_SIZES[0] - 1) :], token]
        return guess
