"""Closing: a structured answer ends whole, however few tokens it may have. What the shortest end is, grammar/ knows.

The decisions rest on committed tokens only, so they are the same with and without speculation.
"""

from __future__ import annotations

from dataclasses import dataclass

from atelico.grammar.matcher import Matcher

# While more tokens than this remain, nothing is looked at: no document takes so many to end, or it cannot be helped.
WINDOW = 512
# Where no end was found, it is looked for again after so many tokens.
_RETRY_EVERY = 16


@dataclass
class Closing:
    """One lane's way to the end of its document.

    Attributes:
        plan: tokens that end the document from the committed state; None where none is known.
        closed_early: whether a token of the model had to give way to it.
    """

    plan: list[int] | None = None
    closed_early: bool = False

    def choose(self, matcher: Matcher, token: int, n_remaining: int) -> int | None:
        """The token to commit: `token`, or the plan's next where the document could not be ended after it.

        Args:
            matcher: in the committed state.
            token: what the model chose; not an end token.
            n_remaining: tokens that may still be committed.

        Returns:
            None where the document has to end as it is.
        """
        if n_remaining > WINDOW:
            return token
        if self.plan is None:
            if n_remaining == WINDOW or n_remaining % _RETRY_EVERY == 0:
                self.plan = matcher.closing(n_remaining)
            if self.plan is None or len(self.plan) > n_remaining:
                self.plan = None
                return token
        after = matcher.closing_after(token, self.plan, n_remaining - 1)
        if after is not None:
            self.plan = after
            return token
        self.closed_early = True
        if not self.plan:
            return None
        self.plan, first = self.plan[1:], self.plan[0]
        return first
