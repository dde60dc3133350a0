"""The engine's own rounds over toy models that are tables: what follows a token depends on that token alone.

So thousands of rounds take seconds, and the right distribution of every token is known. llama.cpp has no part in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from atelico._native import Sampler
from atelico.decoding import sequences
from atelico.decoding.lane import Lane
from atelico.decoding.round import decode, plan_round, verify
from atelico.decoding.text import TextStream
from atelico.runtime.context import Logits, Row
from atelico.runtime.mtp import HeadOutput
from atelico.speculation.draft import Drafter, Proposer
from atelico.speculation.governor import Governor, GovernorLimits
from atelico.speculation.registry import SpeculationPlan

# Logits of what follows each token: float32 [n_vocab, n_vocab].
Table = npt.NDArray[np.float32]

VOCABULARY: Any = SimpleNamespace(eog=frozenset(), piece=lambda _token: b"x", text=lambda _token: "x")


@dataclass
class ToyContext:
    """What a Context is to rounds and to a draft model; nothing limits it."""

    table: Table
    n_sequences: int = 1
    n_batch: int = 64
    n_outputs: int = 64
    n_ctx: int = 1 << 20
    n_cells: int = 1 << 20
    n_rollback: int = 64
    n_exact: int = 64
    n_embd: int = 1
    recurrent: bool = False
    n_rows: int = 0
    n_with_logits: int = 0

    @property
    def n_vocab(self) -> int:
        """Tokens of the table."""
        return len(self.table)

    def decode(self, rows: Sequence[Row]) -> Logits:
        """One row of the table per output."""
        self.n_rows += len(rows)
        self.n_with_logits += sum(row.wants_logits for row in rows)
        return self.table[[row.token for row in rows if row.wants_logits]]

    def truncate(self, _sequence: int, _length: int) -> bool:
        """Always possible."""
        return True

    def clear(self, _sequence: int) -> None:
        """Nothing to forget."""

    def hidden(self, _first: int, n: int) -> npt.NDArray[np.float32]:
        """Hidden states that say nothing."""
        return np.zeros((n, 1), np.float32)


@dataclass
class ToyHead:
    """What a HeadContext is to a HeadDrafter."""

    table: Table
    n_embd: int = 1
    n_batch: int = 64
    n_entries: int = 0

    def decode(
        self, _sequence: int, position: int, tokens: Sequence[int], _hidden: object, *, wants_output: bool
    ) -> HeadOutput | None:
        """The row of the last token."""
        self.n_entries = position + len(tokens)
        return HeadOutput(self.table[tokens[-1]], np.zeros(1, np.float32)) if wants_output else None

    def truncate(self, _sequence: int, length: int) -> bool:
        """Always possible."""
        self.n_entries = min(self.n_entries, length)
        return True

    def length(self, _sequence: int) -> int:
        """Entries."""
        return self.n_entries

    def clear(self, _sequence: int) -> None:
        """Forget all."""
        self.n_entries = 0


@dataclass
class ToyMatcher:
    """A grammar in which `refused[token]` may not follow `token`; nothing is forced, nothing ends it."""

    refused: Sequence[Sequence[int]]
    last: int
    is_complete: bool = False

    def forced(self) -> list[int]:
        """Nothing."""
        return []

    def legal_prefix(self, draft: Sequence[int]) -> int:
        """Up to the first refused one."""
        before = [self.last, *draft]
        return next((i for i, token in enumerate(draft) if token in self.refused[before[i]]), len(draft))

    def extend(self, draft: Sequence[int], budget: int) -> list[int]:
        """Nothing is forced after `draft` either."""
        return list(draft[:budget])

    def consume(self, token: int) -> None:
        """Goes on; a refused token is a defect of the caller."""
        assert token not in self.refused[self.last]
        self.last = token

    def masks(self, draft: Sequence[int]) -> npt.NDArray[np.int32]:
        """As Matcher's: zeros behind a refused token."""
        rows = np.zeros((len(draft) + 1, 1), np.int32)
        for i in range(self.legal_prefix(draft) + 1):
            refused = self.refused[[self.last, *draft][i]]
            rows[i] = sum(1 << token for token in range(len(self.refused)) if token not in refused)
        return rows


@dataclass
class ToyLane:
    """One answer to be, to the prompt `[0]`."""

    sampler: Sampler
    proposers: list[Proposer] = field(default_factory=list)
    drafter: Drafter | None = None
    matcher: ToyMatcher | None = None
    stochastic: bool = False
    k: int = 3


def generate(toy: ToyLane, context: Any, n_tokens: int, *, governor: Governor | None = None) -> tuple[list[int], Lane]:
    """Decode one answer of `n_tokens` in the engine's rounds; the prompt's token and the answer's, and the lane.

    `governor`: decides about drafts; it is told that a row costs a tenth of a pass.
    """
    for source in [*toy.proposers, toy.drafter]:
        if source is not None:
            source.observe([0])
    lane = Lane(
        job=SimpleNamespace(id="toy"),  # type: ignore[arg-type]
        choice=0,
        tokens=[0],
        n_prompt=1,
        max_tokens=n_tokens,
        sampler=toy.sampler,
        text=TextStream(),
        plan=SpeculationPlan("toy", k=toy.k),
        proposers=toy.proposers,
        drafter=toy.drafter,
        guarded=False,
        stochastic=toy.stochastic,
        matcher=toy.matcher,  # type: ignore[arg-type]
        sequence=sequences.Sequence(0),
    )
    judge = governor or Governor(GovernorLimits())
    lane.governor = judge.begin("toy") if governor is not None else None
    with ThreadPoolExecutor(1) as helper:
        while lane.finish_reason is None:
            (turn,) = plan_round([lane], context, judge, prefill_chunk=1)
            logits = decode([turn], context, helper)
            assert logits is not None
            verify(turn, logits, VOCABULARY, judge)
            judge.observe_pass(1, turn.draft_rows, 0.010 * (1 + 0.1 * len(turn.draft)))
    assert lane.plan.reason is None, lane.plan.reason
    return lane.tokens, lane


def transitions(answers: Sequence[Sequence[int]]) -> Counter[tuple[int, int]]:
    """How often each token followed each."""
    return Counter(pair for tokens in answers for pair in pairwise(tokens))
