"""One draft from several sources: what the grammar forces, what the best source guesses, what is forced after that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from atelico.speculation.draft import GRAMMAR, Draft, Drafter, Proposer

# A network's guess is taken for as good as what followed a match of so many tokens; longer matches spare its passes.
DRAFTER_MATCH = 6


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


class _Guess(NamedTuple):
    tokens: list[int]
    source: str
    match: int


def compose(
    proposers: Sequence[Proposer],
    grammar: ForcedTokens | None,
    budget: int,
    drafter: Drafter | None = None,
    n_affordable: int = 0,
    n_guesses: int | None = None,
) -> Draft:
    """A draft of at most `budget` tokens, of which at most `n_guesses` are not forced.

    Forced tokens come first, since they cannot be rejected. Then the guess of the source with the longest match, cut at
    the first token the grammar refuses; then the tokens forced after that; and so on with whichever source then knows
    the context best. A network is asked at most once, for `n_affordable` tokens, where no match is long. Where its
    tokens are drawn by chance, the draft ends with them, whatever they are.
    """
    draft = Draft()
    if budget <= 0:
        return draft
    if grammar is not None:
        draft.extend(grammar.forced()[:budget], GRAMMAR)
    n_guessed = 0
    n_guesses = budget if n_guesses is None else n_guesses
    while (room := min(budget - len(draft), n_guesses - n_guessed)) > 0:
        guess = _best_guess(proposers, draft, room, n_guessed)
        if drafter is not None and n_affordable > 0 and (guess is None or guess.match < DRAFTER_MATCH - n_guessed):
            tokens = drafter.propose(draft.tokens, min(n_affordable, room))
            if drafter.distributions:
                # As acceptance.py needs it: no token is left out for what it is, be it one that the grammar refuses,
                # and nothing follows whose presence would tell the governor which tokens were drawn.
                draft.extend(tokens, drafter.network.source, distributions=drafter.distributions)
                break
            guess = _Guess(tokens, drafter.network.source, 0) if tokens else guess
            drafter = None
        if guess is None:
            break
        n_before = len(draft)
        draft.extend(guess.tokens[:room], guess.source, guess.match)
        if grammar is not None:
            draft = draft.head(grammar.legal_prefix(draft.tokens))
        n_legal = len(draft)
        if n_legal == n_before:
            break
        n_guessed += n_legal - n_before
        if grammar is not None:
            draft.extend(grammar.extend(draft.tokens, budget)[n_legal:], GRAMMAR)
    return draft


def _best_guess(proposers: Sequence[Proposer], draft: Draft, room: int, n_guessed: int) -> _Guess | None:
    """The guess with the longest match after `draft`, the first among equals.

    What was itself guessed proves nothing: it does not count as matched, and it uses up the length that the match
    entitles to.
    """
    best: _Guess | None = None
    for proposer in proposers:
        tokens = proposer.propose(draft.tokens, room)
        match = proposer.match - n_guessed
        if n_guessed:
            tokens = tokens[: max(match - n_guessed, 0)]
        if tokens and (best is None or match > best.match):
            best = _Guess(tokens, proposer.source, match)
    return best
