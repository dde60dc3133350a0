"""Answers of a real model that are cut by their budget are whole all the same, with and without speculation."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from benchmarks.schemas import DATA, sample_cases
from benchmarks.whole_json import Outcome, judge

from atelico.errors import ContextOverflowError, InvalidRequestError
from support.chat import DRAFTING, Chat

SHEET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "deeds": {"type": "array", "items": {"type": "string"}},
        "level": {"type": "integer", "minimum": 1, "maximum": 20},
    },
    "required": ["name", "deeds", "level"],
    "additionalProperties": False,
}
ASK = "Describe a hero as JSON."
FORMAT: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "hero", "schema": SHEET}}}


@pytest.mark.parametrize("mode", [{"temperature": 0}, {"temperature": 0.8, "seed": 4}], ids=str)
@pytest.mark.parametrize("max_tokens", [20, 33])
def test_an_answer_that_is_cut_is_whole_and_the_same_for_every_draft(
    smol: Chat, mode: dict[str, Any], max_tokens: int
) -> None:
    fields = {**FORMAT, **mode, "max_tokens": max_tokens, "cache_prompt": False}
    plain = smol.ask(ASK, **fields)
    text = plain.choices[0].message.content or ""
    jsonschema.validate(json.loads(text), SHEET)
    assert plain.usage.completion_tokens <= max_tokens
    assert plain.atelico.closed_early
    assert plain.choices[0].finish_reason == "length"
    for k in (2, 8):
        drafted = smol.ask(ASK, **fields, **{**DRAFTING, "speculative": {"proposer": "prompt_lookup", "k": k}})
        assert drafted.choices[0].message.content == text
        assert drafted.atelico.speculation.accepted > 0
        assert drafted.atelico.closed_early


def test_an_answer_with_room_ends_by_itself(smol: Chat) -> None:
    small = {"type": "object", "properties": {"hp": {"type": "integer"}}, "required": ["hp"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "hp", "schema": {**small, "additionalProperties": False}}}
    answer = smol.ask("How many hit points has a hero? Answer in JSON.", max_tokens=120, response_format=wanted)
    assert answer.choices[0].finish_reason == "stop"
    assert not answer.atelico.closed_early


def test_log_probabilities_cover_the_tokens_that_end_the_document(smol: Chat) -> None:
    answer = smol.ask(ASK, **FORMAT, max_tokens=22, logprobs=True)
    assert answer.atelico.closed_early
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert "".join(entry.token for entry in logprobs.content) == answer.choices[0].message.content
    assert len(logprobs.content) == answer.usage.completion_tokens


def test_the_end_of_the_context_is_a_budget_too(small: Chat) -> None:
    prompt = small.prompt_of(200)
    answer = small.ask(prompt, **FORMAT, max_tokens=None)
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SHEET)
    with pytest.raises(ContextOverflowError, match=r"takes \d+ tokens; it may have 6"):
        small.ask(small.prompt_of(250), **FORMAT, max_tokens=None)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_budget_below_the_shortest_document_is_refused_with_the_number_needed(smol: Chat, field: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"takes (\d+) tokens; it may have 5") as refused:
        smol.ask(ASK, **{**FORMAT, "max_tokens": None, field: 5})
    assert (refused.value.param, refused.value.code) == (field, "max_tokens_too_small")
    n_needed = int(str(refused.value).split(" takes ")[1].split()[0])
    answer = smol.ask(ASK, **{**FORMAT, "max_tokens": None, field: n_needed})
    jsonschema.validate(json.loads(answer.choices[0].message.content or ""), SHEET)


def test_every_choice_of_a_request_is_whole(smol: Chat) -> None:
    answer = smol.ask(ASK, **FORMAT, max_tokens=24, n=2, temperature=1, seed=3)
    for choice in answer.choices:
        jsonschema.validate(json.loads(choice.message.content or ""), SHEET)


def test_real_schemas_are_answered_whole_in_32_tokens(smol: Chat) -> None:
    if not DATA.exists():
        pytest.skip("the schemas, ../shared/data beside the repository, are not here")
    outcome = Outcome(32)
    for case in sample_cases()[3::16]:
        judge(smol.engine, case, outcome)
    assert not [problem for problem in outcome.broken if "cannot be enforced" not in problem]
    assert outcome.whole >= 10
