"""One draft from several sources: what the grammar forces, what a proposer guesses, what is forced after that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from atelico.speculation.draft import Draft, Proposer


class ForcedTokens(Protocol):
    """The part of a grammar matcher that composition needs; see grammar/matcher.py. All leave its state unchanged."""

    def forced(self) -> list[int]:
        """Tokens that must follow the committed ones."""
        ...

    def legal_prefix(self, draft: Sequence[int]) -> int:
        """How many tokens of `draft` the grammar accepts."""
        ...

    def extend(self, draft: Sequence[int], budget: int) -> list[int]:
        """`draft` and then what is forced after it, at most `budget` tokens."""
        ...


def compose(proposers: Sequence[Proposer], grammar: ForcedTokens | None, budget: int) -> Draft:
    """A draft of at most `budget` tokens.

    Forced tokens come first, since they cannot be rejected; then the first proposer that has a guess, cut at the first
    token the grammar refuses; then the tokens forced after that.
    """
    draft = Draft()
    if budget <= 0:
        return draft
    if grammar is not None:
        draft.extend(grammar.forced()[:budget], "grammar")
    for proposer in proposers:
        room = budget - len(draft)
        guess = proposer.propose(draft.tokens, room)[:room] if room > 0 else []
        if guess:
            draft.extend(guess, proposer.source, proposer.match)
            break
    if grammar is not None and draft.tokens:
        legal = grammar.legal_prefix(draft.tokens)
        draft = draft.head(legal)
        draft.extend(grammar.extend(draft.tokens, budget)[legal:], "grammar")
    return draft
