"""Proposers that follow a script, and the way a test puts one into the engine. They guess badly on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from atelico.speculation import registry
from atelico.speculation.draft import Proposer

NAME = "scripted"

# Every draft is verified, whether it pays or not.
UNGOVERNED: dict[str, Any] = {"atelico": {"governor": "off"}}

Script = Callable[[Sequence[int], int], list[int]]


@dataclass
class Scripted:
    """Proposes what `script(context, budget)` says; the context is every committed token and the draft so far.

    Attributes:
        context: the committed tokens, prompt included.
        n_calls: how often it was asked for a draft.
    """

    script: Script
    name: str = NAME
    source: str = NAME
    match: int = 3
    context: list[int] = field(default_factory=list)
    n_calls: int = 0

    def observe(self, tokens: Sequence[int]) -> None:
        """Remember what was committed."""
        self.context += tokens

    def propose(self, ahead: Sequence[int], budget: int) -> list[int]:
        """Do as the script says."""
        self.n_calls += 1
        return self.script([*self.context, *ahead], budget)


@contextmanager
def installed(proposer: Proposer) -> Iterator[dict[str, Any]]:
    """Make `proposer` the one that NAME means, for one request; gives the request fields that ask for its drafts."""
    with mock.patch.dict(registry._BUILDERS, {NAME: lambda _memories, _n_prompt: [proposer]}):
        yield {"speculative": {"proposer": NAME, "k": 8}, **UNGOVERNED}


def replaying(answer: Sequence[int], change: Callable[[int], int] = lambda token: token) -> Script:
    """The rest of `answer` (prompt and output), each token put through `change`; with none it is always right."""

    def script(context: Sequence[int], budget: int) -> list[int]:
        return [change(token) for token in answer[len(context) : len(context) + budget]]

    return script


def always(tokens: Sequence[int]) -> Script:
    """These tokens every time, whatever the budget."""

    def script(_context: Sequence[int], _budget: int) -> list[int]:
        return list(tokens)

    return script


def right_then(answer: Sequence[int], tokens: Sequence[int], n_right: int) -> Script:
    """`n_right` tokens of `answer`, then `tokens`, whatever the budget."""

    def script(context: Sequence[int], _budget: int) -> list[int]:
        return [*answer[len(context) : len(context) + n_right], *tokens]

    return script


def failing(after: int) -> Script:
    """Wrong guesses `after` times, then an exception."""
    left = after

    def script(_context: Sequence[int], budget: int) -> list[int]:
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("this proposer fails on purpose")
        return [0] * budget

    return script
