"""Rows that decide a forced token are computed without logits; whatever the grammar engine claims, the answer is plain
decoding's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from atelico._native import Sampler
from support.toy_rounds import ToyContext, ToyLane, ToyMatcher, generate

N_VOCAB = 8


@dataclass
class Forcing(ToyMatcher):
    """After an even token the next one is forced; it may claim the same, wrongly, of what follows an odd one."""

    lies: bool = False

    def forced(self) -> list[int]:
        """The number behind the last one, and what is claimed to follow it."""
        if self.last % 2 == 0:
            return [self.last + 1, self.last + 2] if self.lies and self.last + 2 < N_VOCAB else [self.last + 1]
        return [(self.last + 1) % N_VOCAB] if self.lies else []


def forcing(*, lies: bool) -> Forcing:
    refused = [[t for t in range(N_VOCAB) if last % 2 == 0 and t != last + 1] for last in range(N_VOCAB)]
    return Forcing(refused, 0, lies=lies)


def answer(matcher: Forcing, k: int) -> tuple[list[int], Any, ToyContext]:
    table = np.random.default_rng(5).normal(0, 1, (N_VOCAB, N_VOCAB)).astype(np.float32)
    context = ToyContext(table)
    toy = ToyLane(Sampler(N_VOCAB, temperature=0.9, seed=3), matcher=matcher, k=k)
    tokens, lane = generate(toy, context, 200)
    return tokens, lane, context


def test_forced_tokens_are_accepted_without_logits() -> None:
    plain, _, plain_context = answer(forcing(lies=False), k=0)
    tokens, lane, context = answer(forcing(lies=False), k=3)
    assert tokens == plain
    n_forced = lane.stats.accepted_by_source["grammar"]
    assert n_forced >= 40
    assert context.n_rows == plain_context.n_rows  # a forced token is never wrong, so no row is wasted
    assert context.n_with_logits == context.n_rows - n_forced


def test_a_token_wrongly_called_forced_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    plain, _, _ = answer(forcing(lies=True), k=0)
    tokens, lane, _ = answer(forcing(lies=True), k=3)
    assert tokens == plain
    assert not lane.trusts_forced
    assert caplog.text.count("was taken for forced") == 1
