"""Prediction: draft from a text that the caller expects (OpenAI's `prediction` field), such as code to be edited."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

from atelico.speculation.prompt_lookup import MIN_MATCH

# The caller vouches for the beginning of the text; as good as a match of so many tokens.
_TRUST = 8
# Tokens compared when the place is looked for again.
_MAX_RUN = 16
# Places looked at before and after the last one; a text of blanks has thousands.
_MAX_PLACES = 32


class Alignment(NamedTuple):
    """Where the answer stands in the prediction. `at`: index of the token to come; `run`: how many before it agreed.

    A `run` of 0 says that the answer has left the prediction after index `at`.
    """

    at: int
    run: int


class Prediction:
    """The expected text, and where in it the answer has got to. Found again after the answer has departed from it."""

    name = "prediction"
    source = "prediction"

    def __init__(self, tokens: Sequence[int], n_prompt: int) -> None:
        """`tokens`: the expected answer; `n_prompt`: how many of the observed tokens are the prompt."""
        self.match = 0
        self._expected = list(tokens)
        self._after: dict[tuple[int, int], list[int]] = {}  # two tokens -> the indices after them
        for i in range(2, len(self._expected) + 1):
            self._after.setdefault((self._expected[i - 2], self._expected[i - 1]), []).append(i)
        self._n_to_skip = n_prompt
        self._tail: list[int] = []
        self._alignment = Alignment(0, _TRUST)

    def observe(self, tokens: Sequence[int]) -> None:
        """Follow the answer."""
        answer = tokens[self._n_to_skip :]
        self._n_to_skip = max(self._n_to_skip - len(tokens), 0)
        self._alignment, self._tail = self._advance(self._alignment, self._tail, answer)

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """The expected tokens from here on, at most as many as have agreed before."""
        (at, run), _ = self._advance(self._alignment, self._tail, ahead)
        self.match = run
        if run < MIN_MATCH:
            return []
        return self._expected[at : at + min(budget, run)]

    def _advance(self, place: Alignment, tail: list[int], tokens: Sequence[int]) -> tuple[Alignment, list[int]]:
        for token in tokens:
            tail = [*tail[-(_MAX_RUN - 1) :], token]
            if place.run and self._expected[place.at : place.at + 1] == [token]:
                place = Alignment(place.at + 1, place.run + 1)
            else:
                place = self._search(tail, place.at)
        return place, tail

    def _search(self, tail: list[int], last_at: int) -> Alignment:
        """Where the end of the answer occurs in the prediction: the longest match, among equals the nearest to come."""
        best, best_rank = Alignment(last_at, 0), (1, 0, 0)
        places = self._after.get((tail[-2], tail[-1]), []) if len(tail) >= 2 else []
        nearest = bisect.bisect_left(places, last_at)
        for at in places[max(nearest - _MAX_PLACES, 0) : nearest + _MAX_PLACES]:
            run = 2
            while run < min(len(tail), at) and self._expected[at - run - 1] == tail[-run - 1]:
                run += 1
            rank = (run, at >= last_at, -abs(at - last_at))
            if rank > best_rank:
                best, best_rank = Alignment(at, run), rank
        return best
