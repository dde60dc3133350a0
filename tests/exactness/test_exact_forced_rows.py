"""Real models under a schema: rows that decide forced tokens have no logits, and the answer does not show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from atelico import Engine
from atelico.runtime.context import Row
from support.chat import GEMMA, SMOLLM2
from support.grid import SCHEMAS, response_format
from support.memory import holds_exactly_the_returned_tokens
from support.near_tie import explained
from support.observe import loaded_model, run
from support.prompts import request, speculative


def body_of(model: str, schema: str, **options: Any) -> dict[str, Any]:
    prompt, _ = SCHEMAS[schema]
    return request(model, prompt, max_tokens=200, response_format=response_format(schema), **options)


def is_drafting(rows: tuple[Row, ...]) -> bool:
    """Whether a pass decides more than one token; a prompt has logits on its last row alone and is longer."""
    return 1 < len(rows) <= 17 and rows[0].sequence == rows[-1].sequence


@pytest.mark.parametrize("mode", [{"temperature": 0}, {"temperature": 0.8, "seed": 4}], ids=["greedy", "seeded"])
@pytest.mark.parametrize("model", [SMOLLM2, GEMMA])
def test_forced_tokens_cost_no_logits(
    real_engine: Engine, installed_model: Callable[[str], str], model: str, mode: dict[str, Any]
) -> None:
    body = body_of(installed_model(model), next(iter(SCHEMAS)), **mode)
    plain, drafted = run(real_engine, body), run(real_engine, {**body, **speculative("lookahead", 5)})
    if explained(loaded_model(real_engine, model), plain, drafted) is None:
        assert drafted.text == plain.text
    n_blind = sum(not row.wants_logits for rows in drafted.passes[1:] for row in rows)
    assert n_blind >= 4, "the schema forced nothing"
    assert n_blind <= drafted.answer.atelico.speculation.proposed_sources["grammar"]
    assert all(rows[-1].wants_logits for rows in drafted.passes[1:]), "nothing decides what follows the draft"
    assert holds_exactly_the_returned_tokens(drafted)


def test_log_probabilities_ask_for_every_row(real_engine: Engine, installed_model: Callable[[str], str]) -> None:
    body = body_of(installed_model(SMOLLM2), next(iter(SCHEMAS)), temperature=0, logprobs=True, top_logprobs=2)
    plain, drafted = run(real_engine, body), run(real_engine, {**body, **speculative("lookahead", 5)})
    assert any(map(is_drafting, drafted.passes[1:])), "nothing was drafted"
    assert all(row.wants_logits for rows in drafted.passes[1:] for row in rows)
    ours, theirs = drafted.answer.choices[0].logprobs, plain.answer.choices[0].logprobs
    assert ours is not None and theirs is not None and ours.content and theirs.content
    assert [t.token for t in ours.content] == [t.token for t in theirs.content]
    assert [t.logprob for t in ours.content] == pytest.approx([t.logprob for t in theirs.content], abs=1e-3)
