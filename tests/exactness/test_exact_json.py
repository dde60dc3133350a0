"""Speculation never changes a structured answer, and every finished one is valid: real models under four schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from atelico import Engine
from support.chat import GEMMA, SMOLLM2
from support.grid import JSON_MODES, N_JSON_TOKENS, SCHEMAS, response_format
from support.memory import holds_exactly_the_returned_tokens
from support.near_tie import explained
from support.observe import Run, loaded_model, run
from support.prompts import request, speculative

GRID = [(SMOLLM2, schema, mode) for schema in SCHEMAS for mode in JSON_MODES] + [
    (GEMMA, schema, mode) for schema, mode in zip(SCHEMAS, ("greedy", "seed 1", "seed 2", "greedy"), strict=True)
]


@pytest.mark.parametrize("model, schema, mode", GRID)
def test_structured_text_is_that_of_plain_decoding_and_valid(
    real_engine: Engine, installed_model: Callable[[str], str], model: str, schema: str, mode: str
) -> None:
    prompt, wanted = SCHEMAS[schema]
    fields = {"max_tokens": N_JSON_TOKENS, "response_format": response_format(schema)}
    body = request(installed_model(model), prompt, **fields, **JSON_MODES[mode])
    plain = run(real_engine, body)
    assert_valid_where_finished(plain, wanted)
    n_accepted = 0
    for proposer, k in (("prompt_lookup", 5), ("lookahead", 16)):
        drafted = run(real_engine, {**body, **speculative(proposer, k)})
        if explained(loaded_model(real_engine, model), plain, drafted) is None:
            assert drafted.text == plain.text
            assert drafted.answer.usage.completion_tokens == plain.answer.usage.completion_tokens
        assert_valid_where_finished(drafted, wanted)
        assert holds_exactly_the_returned_tokens(drafted)
        n_accepted += drafted.accepted
    assert n_accepted > 0, "no draft was ever right, so this schema tests nothing"


def assert_valid_where_finished(answer: Run, schema: dict[str, Any]) -> None:
    """A finished answer follows the schema."""
    assert answer.finish_reason in ("stop", "length")
    if answer.finish_reason == "stop":
        jsonschema.validate(json.loads(answer.text), schema)


def test_most_structured_answers_finish(real_engine: Engine, installed_model: Callable[[str], str]) -> None:
    name = installed_model(SMOLLM2)
    reasons = []
    for schema, (prompt, _) in SCHEMAS.items():
        fields = {"max_tokens": N_JSON_TOKENS, "response_format": response_format(schema)}
        body = request(name, prompt, temperature=0, **fields)
        reasons.append(run(real_engine, {**body, **speculative("auto", 5)}).finish_reason)
    assert reasons.count("stop") >= 3
