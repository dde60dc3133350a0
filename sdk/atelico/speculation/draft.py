"""A draft, and what a proposer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass
class Draft:
    """Tokens guessed to follow, each with the name of the source that guessed it."""

    tokens: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def extend(self, tokens: Sequence[int], source: str) -> None:
        """Append `tokens`, all guessed by `source`."""
        self.tokens.extend(tokens)
        self.sources.extend([source] * len(tokens))

    def __len__(self) -> int:
        return len(self.tokens)


class Proposer(Protocol):
    """Guesses what follows. It sees every committed token once, in order, and nothing that was rejected."""

    name: str
    source: str

    def observe(self, tokens: Sequence[int]) -> None:
        """`tokens` now follow what was observed before: first the prompt, then what each round committed."""
        ...

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """At most `budget` tokens guessed to follow the observed ones and then `ahead` (a draft so far).

        An empty list when there is no guess. Must leave no trace: what it proposes may all be rejected.
        """
        ...
