"""Speculation never changes the text: real models, greedy and seeded, every proposer and draft length.

A difference is allowed where it is proven to be a near tie between the kernels of one row and of several.
The grid is thinned for CI (benchmarks/exact_grid.py runs all of it): three steps per prompt along a cycle of ten, on
which every pair of a proposer and a draft length occurs, so that each model meets all of them greedily, and every draft
length with every seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atelico import Engine
from support.chat import SMOLLM2
from support.grid import LENGTHS, MODELS, N_TOKENS, PROPOSERS, SEEDS
from support.memory import holds_exactly_the_returned_tokens
from support.near_tie import explained
from support.observe import Run, loaded_model, run
from support.prompts import PROMPTS, request, speculative

# Their answers repeat themselves or the prompt, so that many a draft is right.
REPETITIVE = ("grounded", "list", "json")


def assert_same_answer(engine: Engine, plain: Run, drafted: Run) -> None:
    """`drafted` has the text of `plain`, or parts from it at a proven near tie; both left a clean memory."""
    tie = explained(loaded_model(engine, plain.request["model"]), plain, drafted)
    if tie is None:
        assert drafted.text == plain.text
        assert drafted.answer.usage.completion_tokens == plain.answer.usage.completion_tokens
        assert drafted.n_memory == plain.n_memory
    assert holds_exactly_the_returned_tokens(plain)
    assert holds_exactly_the_returned_tokens(drafted)


@pytest.mark.parametrize("n, name", list(enumerate(PROMPTS)), ids=list(PROMPTS))
@pytest.mark.parametrize("model", MODELS)
def test_greedy_text_is_that_of_plain_decoding(
    real_engine: Engine, installed_model: Callable[[str], str], model: str, n: int, name: str
) -> None:
    body = request(installed_model(model), PROMPTS[name], max_tokens=N_TOKENS, temperature=0)
    plain = run(real_engine, body)
    n_proposed = n_accepted = 0
    for step in range(n, n + 3):
        drafted = run(real_engine, {**body, **speculative(PROPOSERS[step % 2], LENGTHS[step % 5])})
        assert_same_answer(real_engine, plain, drafted)
        n_proposed += drafted.proposed
        n_accepted += drafted.accepted
    assert n_proposed > 0, "nothing was ever drafted, so this prompt tests nothing"
    assert n_accepted > 0 or name not in REPETITIVE, "no draft was ever right"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("model", MODELS)
def test_a_seed_gives_the_text_of_plain_decoding(
    real_engine: Engine, installed_model: Callable[[str], str], model: str, seed: int
) -> None:
    prompt = list(PROMPTS.values())[(seed + 3 * MODELS.index(model)) % len(PROMPTS)]
    mode: dict[str, Any] = {"temperature": 0.8, "seed": seed}
    body = request(installed_model(model), prompt, max_tokens=N_TOKENS // 2, **mode)
    plain = run(real_engine, body)
    n_proposed = 0
    for i, k in enumerate(LENGTHS):
        drafted = run(real_engine, {**body, **speculative(PROPOSERS[(seed + i) % 2], k)})
        assert_same_answer(real_engine, plain, drafted)
        n_proposed += drafted.proposed
    assert n_proposed > 0, "nothing was ever drafted, so this prompt tests nothing"


def test_the_governor_may_draft_less_and_changes_nothing(
    real_engine: Engine, installed_model: Callable[[str], str]
) -> None:
    body = request(installed_model(SMOLLM2), PROMPTS["json"], max_tokens=N_TOKENS, temperature=0)
    plain = run(real_engine, body)
    for proposer in PROPOSERS:
        governed = run(real_engine, {**body, "speculative": {"proposer": proposer, "k": 16}})
        assert_same_answer(real_engine, plain, governed)
