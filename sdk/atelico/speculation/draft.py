"""A draft, and what proposers and drafters are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

# A probability for every token of the vocabulary: float64 [n_vocab].
Distribution = npt.NDArray[np.float64]
# The source of tokens that a grammar leaves no choice in.
GRAMMAR = "grammar"


@dataclass
class Draft:
    """Tokens guessed to follow, each with the name of the source that guessed it and the match length it went by.

    `distributions`: what each was drawn from, by chance; None where it was looked up or is the likeliest.
    """

    tokens: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    matches: list[int] = field(default_factory=list)
    distributions: list[Distribution | None] = field(default_factory=list)

    def extend(
        self, tokens: Sequence[int], source: str, match: int = 0, distributions: Sequence[Distribution] = ()
    ) -> None:
        """Append `tokens`, all guessed by `source` from a match of `match` tokens, or drawn from `distributions`."""
        self.tokens.extend(tokens)
        self.distributions.extend(distributions or [None] * len(tokens))
        self.sources.extend([source] * len(tokens))
        self.matches.extend([match] * len(tokens))

    def head(self, length: int) -> Draft:
        """The first `length` tokens as a draft of their own."""
        return Draft(self.tokens[:length], self.sources[:length], self.matches[:length], self.distributions[:length])

    @property
    def n_forced(self) -> int:
        """How many of the tokens a grammar forces."""
        return self.sources.count(GRAMMAR)

    def __len__(self) -> int:
        return len(self.tokens)


class Proposer(Protocol):
    """Guesses what follows by looking it up, which costs next to nothing. It sees every committed token once, in order,
    and nothing that was rejected.

    Attributes:
        source: the name its tokens are counted under.
        match: length of the context's end that the last proposal went by; the longer, the likelier it is right.
    """

    name: str
    source: str
    match: int

    def observe(self, tokens: Sequence[int]) -> None:
        """`tokens` now follow what was observed before: first the prompt, then what each round committed."""
        ...

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """At most `budget` tokens guessed to follow the observed ones and then `ahead` (a draft so far).

        An empty list when there is no guess. Must leave no trace: what it proposes may all be rejected.
        """
        ...


@dataclass(frozen=True)
class Network:
    """A neural network that drafts.

    Attributes:
        source: the name its tokens are counted under.
        expected_cost: of a draft token, before it is measured, relative to a pass of the model with one row.
    """

    source: str
    expected_cost: float


class Drafter(Protocol):
    """Guesses what follows with a neural network, whose passes cost time. One per lane; used by the decode thread, but
    for the first `observe`.

    Attributes:
        network: the one that guesses.
        reads_hidden: whether `read` must be called.
        distributions: what the tokens of the last proposal were drawn from, one each; empty where they are no draws.
    """

    network: Network
    reads_hidden: bool
    distributions: list[Distribution]

    def observe(self, tokens: Sequence[int]) -> None:
        """As a Proposer's."""
        ...

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """As a Proposer's."""
        ...

    def read(self, position: int, hidden: npt.NDArray[np.float32]) -> None:
        """The model has just decoded tokens at `position` and after, of which the last ones may yet be rejected.

        Args:
            hidden: float32 [tokens, n_embd], their hidden states; a view that is valid during this call.
        """
        ...

    def close(self) -> None:
        """The request has ended: give its memory back. Safe to call twice."""
        ...
