"""An online suffix automaton over tokens: which end of the text has occurred before, and what followed it how often.

No proposer: prompt_lookup.py walks it. The construction is that of Blumer et al. (1985); its use for drafting follows
SAM-Decoding (Hu et al., arXiv 2411.10666), counting continuations follows SuffixDecoding (arXiv 2411.04975).
"""

from __future__ import annotations

from typing import NamedTuple

# How many shorter ends of the text get a repeated continuation counted, too. Text that repeats one token has as many
# ends as tokens, and counting them all would make each token cost the length of the text.
_MAX_COUNTED = 8


class Place(NamedTuple):
    """Where one stands in the automaton: a state, and how many tokens have been matched on the way to it."""

    state: int
    length: int


class SuffixAutomaton:
    """Every substring of a growing text in at most two states per token. O(1) amortised per token appended."""

    def __init__(self) -> None:
        self._next: list[dict[int, int]] = [{}]
        self._link: list[int] = [-1]
        self._length: list[int] = [0]
        self._repeats: list[dict[int, int] | None] = [None]  # of a state: how often a continuation came, if repeatedly
        self._last = 0

    def __len__(self) -> int:
        """Tokens appended."""
        return self._length[self._last]

    def append(self, token: int) -> None:
        """`token` follows the text."""
        new = self._add_state({}, self._length[self._last] + 1, 0, None)
        state = self._last
        while state != -1 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
        if state != -1:
            self._count(state, token)
            self._link[new] = self._split(state, token)
        self._last = new

    @property
    def end(self) -> Place:
        """The whole text."""
        return Place(self._last, len(self))

    def step(self, place: Place, token: int) -> Place:
        """The longest end of what stands at `place` and then `token` that occurs in the text."""
        state, length = place
        while token not in self._next[state]:
            state = self._link[state]
            if state == -1:
                return Place(0, 0)
            length = self._length[state]
        return Place(self._next[state][token], length + 1)

    def continued(self, place: Place) -> Place:
        """`place`, shortened to the longest end of it that something has followed."""
        state, length = place
        while state != -1 and not self._next[state]:
            state = self._link[state]
            length = self._length[state]
        return Place(state, length) if state != -1 else Place(0, 0)

    def likeliest(self, place: Place) -> tuple[int, float]:
        """The token that most often followed at a `continued` place, the newest among equals, and its share."""
        following, repeats = self._next[place.state], self._repeats[place.state]
        if repeats is None:  # each came once
            return next(reversed(following)), 1.0 / len(following)
        token = max(reversed(following), key=lambda candidate: repeats.get(candidate, 1))
        return token, repeats[token] / (sum(repeats.values()) + len(following) - len(repeats))

    def _add_state(self, following: dict[int, int], length: int, link: int, repeats: dict[int, int] | None) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(link)
        self._repeats.append(repeats)
        return len(self._next) - 1

    def _split(self, state: int, token: int) -> int:
        """The state of exactly the text of `state` and then `token`, made from the one that also has longer texts."""
        target = self._next[state][token]
        length = self._length[state] + 1
        if self._length[target] == length:
            return target
        repeats = self._repeats[target]
        clone = self._add_state(
            dict(self._next[target]), length, self._link[target], dict(repeats) if repeats is not None else None
        )
        self._link[target] = clone
        while state != -1 and self._next[state].get(token) == target:
            self._next[state][token] = clone
            state = self._link[state]
        return clone

    def _count(self, state: int, token: int) -> None:
        """`token` has followed the texts of `state` and of its shorter ends once more."""
        for _ in range(_MAX_COUNTED):
            if self._length[state] < 2:
                return
            repeats = self._repeats[state]
            if repeats is None:
                repeats = self._repeats[state] = {}
            repeats[token] = repeats.get(token, 1) + 1
            state = self._link[state]
