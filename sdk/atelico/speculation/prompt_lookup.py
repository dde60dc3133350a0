"""Prompt lookup: draft what followed the last earlier occurrence of the context's last tokens.

The method is Prompt Lookup Decoding (Saxena 2023): the last 3 tokens, else the last 2, over prompt and output.
"""

from __future__ import annotations

from collections.abc import Sequence

# Longest first; 3 then 2 is the documented rule (the method's own sweep names 3 the best single length).
NGRAM_SIZES = (3, 2)


class PromptLookup:
    """An index from every n-gram of the context to the place after its latest occurrence. O(1) amortised per token."""

    name = "prompt_lookup"
    source = "prompt"

    def __init__(self) -> None:
        self.match = 0
        self._context: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def observe(self, tokens: Sequence[int]) -> None:
        """Append `tokens` to the context; the n-grams before each of them become findable."""
        context, after = self._context, self._after
        for token in tokens:
            # Indexed only now that something follows: the context's own end must not find itself.
            for size in NGRAM_SIZES:
                if len(context) >= size:
                    after[tuple(context[-size:])] = len(context)
            context.append(token)

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """The tokens after the latest earlier occurrence of the last 3, else 2, tokens."""
        tail = [*self._context[-NGRAM_SIZES[0] :], *ahead][-NGRAM_SIZES[0] :]
        for size in NGRAM_SIZES:
            start = self._after.get(tuple(tail[-size:])) if len(tail) >= size else None
            if start is not None:
                self.match = size
                return self._context[start : start + budget]
        return []
