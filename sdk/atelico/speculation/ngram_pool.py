"""A pool of n-grams, each with the token that mostly followed it lately. No proposer: those are lookahead.py and
schema_memory.py."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

# Longest first.
NGRAM_SIZES = (8, 5, 3, 2)
LONGEST = NGRAM_SIZES[0]
# Four entries per token of output: about 25,000 tokens of memory, 23 MB of Python objects at worst.
POOL_ENTRIES = 100_000
# A follower that was seen so often in a row holds its place against as many others.
_MAX_VOTES = 8


class NgramPool:
    """What mostly followed each n-gram; the least recently used n-grams go first.

    A follower is kept by majority vote (Boyer and Moore): seen again it gains a vote, another one costs it a vote and
    replaces it at none. So the pool follows the frequent and the recent with one entry per n-gram.

    Shared by the requests of one model and touched only by its decode thread. It never puts text into an answer: what
    is drafted from it is verified like any other draft.
    """

    def __init__(self, capacity: int = POOL_ENTRIES) -> None:
        self._capacity = capacity
        self._next: OrderedDict[tuple[int, ...], tuple[int, int]] = OrderedDict()  # n-gram -> follower, votes

    def __len__(self) -> int:
        return len(self._next)

    def learn(self, tail: Sequence[int], token: int) -> None:
        """`token` followed `tail`, whose last tokens are the n-grams to remember."""
        for size in NGRAM_SIZES:
            if len(tail) >= size:
                self.add(tuple(tail[-size:]), token)

    def add(self, ngram: tuple[int, ...], token: int) -> None:
        """`token` followed `ngram`."""
        known, votes = self._next.get(ngram, (token, 0))
        if known == token:
            self._next[ngram] = (token, min(votes + 1, _MAX_VOTES))
        else:
            self._next[ngram] = (known, votes - 1) if votes > 1 else (token, 1)
        self._next.move_to_end(ngram)
        if len(self._next) > self._capacity:
            self._next.popitem(last=False)

    def follow(self, tail: Sequence[int]) -> tuple[int, int] | None:
        """The token that mostly followed the longest known n-gram at the end of `tail`, and that n-gram's length."""
        for size in NGRAM_SIZES:
            ngram = tuple(tail[-size:])
            known = self._next.get(ngram) if len(ngram) == size else None
            if known is not None:
                self._next.move_to_end(ngram)
                return known[0], size
        return None

    def chain(self, tail: Sequence[int], budget: int) -> tuple[list[int], int]:
        """Up to `budget` tokens after `tail`, from one n-gram to the next, and the length of the first n-gram.

        The chain is at most as long as that n-gram, except for the longest ones, whose true match may be any longer.
        """
        tail = list(tail[-LONGEST:])
        guess: list[int] = []
        match = 0
        while len(guess) < budget:
            found = self.follow(tail)
            if found is None:
                break
            token, size = found
            if not guess:
                match = size
                budget = budget if size == LONGEST else min(budget, size)
            guess.append(token)
            tail = [*tail[-(LONGEST - 1) :], token]
        return guess, match
