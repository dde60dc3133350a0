"""Prompt lookup: draft what followed the longest end of the context that has occurred before, in prompt or output.

Prompt Lookup Decoding (Saxena 2023) looks for the last 3 tokens, else for the last 2. This is the same rule without the
3: the longest match decides, and one shorter than 2 never drafts. As in SuffixDecoding (arXiv 2411.04975) a draft is at
most as long as its match, and of several continuations the most frequent one is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from atelico.speculation.suffix_automaton import SuffixAutomaton

MIN_MATCH = 2
# A path of continuations that is less likely than this, by how often each came, is not worth a row.
_MIN_SHARE = 0.1
# About half a KB of Python objects per token: 16 MB at most. A longer context keeps its newer half.
MAX_INDEXED = 32_768


class PromptLookup:
    """Prompt and output of one request as a suffix automaton."""

    name = "prompt_lookup"
    source = "prompt"

    def __init__(self, max_indexed: int = MAX_INDEXED) -> None:
        self.match = 0
        self._max_indexed = max_indexed
        self._text = SuffixAutomaton()
        self._newer_half: deque[int] = deque(maxlen=max_indexed // 2)

    def observe(self, tokens: Sequence[int]) -> None:
        """Append `tokens` to the context."""
        for token in tokens:
            if len(self._text) >= self._max_indexed:
                self._text = SuffixAutomaton()
                for kept in self._newer_half:
                    self._text.append(kept)
            self._text.append(token)
            self._newer_half.append(token)

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """The likeliest continuation, at most as long as the match. A text that repeats itself goes on repeating."""
        text = self._text
        place = text.end
        for token in ahead:
            place = text.step(place, token)
        place = text.continued(place)
        self.match = place.length
        guess: list[int] = []
        likely = 1.0
        while len(guess) < min(budget, self.match) and place.length >= MIN_MATCH:
            token, share = text.likeliest(place)
            likely *= share
            if likely < _MIN_SHARE:
                break
            guess.append(token)
            place = text.continued(text.step(place, token))
        return guess
