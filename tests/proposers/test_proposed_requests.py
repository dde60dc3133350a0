"""Proposers through whole requests: same text, the right source named, predictions counted, memories kept or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atelico import Engine
from atelico.errors import InvalidRequestError
from atelico.speculation import drafters, pick
from support.chat import REPEAT, Chat
from support.near_tie import first_difference
from support.prompts import speculative
from support.scripted import UNGOVERNED
from support.tiny_answers import ALONE, SHEET, WORDS, Answer

SEEDED = {"temperature": 0.8, "seed": 11}


def predicting(text: Any) -> dict[str, Any]:
    return {"prediction": {"type": "content", "content": text}}


@pytest.mark.parametrize("fields", [{}, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize(("proposer", "source"), [("prompt_lookup", "prompt"), ("lookahead", "pool"), ("auto", None)])
def test_what_is_looked_up_never_changes_the_text(
    answer: Answer, proposer: str, source: str | None, fields: dict[str, Any]
) -> None:
    plain = answer("llama", max_tokens=200, **fields)
    for k in (1, 5, 16):
        drafted = answer("llama", max_tokens=200, **fields, **speculative(proposer, k))
        assert drafted.accepted > 0
        assert set(drafted.answer.atelico.speculation.sources) <= ({source} if source else {"prompt", "pool"})
        assert first_difference(plain, drafted) is None


# --- prediction ---------------------------------------------------------------------------------------------------


def test_a_right_prediction_is_accepted_whole_without_a_speculative_field(answer: Answer) -> None:
    plain = answer("llama")
    found = answer("llama", **predicting(plain.text), **UNGOVERNED)
    info, details = found.answer.atelico.speculation, found.answer.usage.completion_tokens_details
    assert (info.proposer, info.active, set(info.sources)) == ("prediction", True, {"prediction"})
    assert first_difference(plain, found) is None
    assert details.accepted_prediction_tokens == info.accepted > 80
    assert details.rejected_prediction_tokens == found.proposed - found.accepted < found.accepted
    assert len(found.passes) < len(plain.passes) / 3


def test_a_prediction_helps_a_seeded_answer_where_its_text_has_the_same_tokens(answer: Answer) -> None:
    plain = answer("llama", **SEEDED)
    found = answer("llama", **SEEDED, **predicting(plain.text), **UNGOVERNED)
    assert first_difference(plain, found) is None
    assert found.answer.usage.completion_tokens_details.accepted_prediction_tokens > 10


def test_a_wrong_prediction_is_rejected_and_counted(answer: Answer) -> None:
    plain = answer("llama")
    found = answer("llama", **predicting("level items true false null " * 20), **UNGOVERNED)
    details = found.answer.usage.completion_tokens_details
    assert first_difference(plain, found) is None
    assert details.rejected_prediction_tokens > 0
    assert details.accepted_prediction_tokens + details.rejected_prediction_tokens == found.proposed


def test_after_a_changed_passage_the_prediction_is_found_again(answer: Answer) -> None:
    plain = answer("llama", max_tokens=100)
    words = plain.text.split(" ")
    edited = " ".join([*words[:30], "null", "null", "thief", *words[36:]])
    found = answer("llama", max_tokens=100, **predicting(edited), **UNGOVERNED)
    assert first_difference(plain, found) is None
    assert found.answer.usage.completion_tokens_details.accepted_prediction_tokens > 70


def test_a_prediction_in_parts_is_one_text(answer: Answer) -> None:
    plain = answer("llama")
    parts = [{"type": "text", "text": plain.text[:40]}, {"type": "text", "text": plain.text[40:]}]
    assert answer("llama", **predicting(parts), **UNGOVERNED).accepted > 60


def test_prediction_and_another_proposer_draft_together(answer: Answer) -> None:
    plain = answer("llama")
    found = answer("llama", **predicting(plain.text[:150]), **speculative("prompt_lookup", 8))
    assert found.answer.atelico.speculation.proposer == "prompt_lookup"
    assert set(found.answer.atelico.speculation.sources) == {"prediction", "prompt"}
    assert first_difference(plain, found) is None


def test_proposer_none_means_none(answer: Answer) -> None:
    info = answer("llama", **predicting("the key"), speculative={"proposer": "none"}).answer.atelico.speculation
    assert (info.active, info.reason) == (False, "proposer 'none' was requested")


def test_an_empty_prediction_is_nothing_to_draft_from(answer: Answer) -> None:
    found = answer("llama", max_tokens=10, **predicting(""), **UNGOVERNED)
    assert (found.proposed, found.text) == (0, answer("llama", max_tokens=10).text)


@pytest.mark.parametrize(
    "prediction", [{"type": "image", "content": "x"}, {"type": "content"}, {"type": "content", "content": 3}], ids=str
)
def test_a_malformed_prediction_is_named(answer: Answer, prediction: Any) -> None:
    with pytest.raises(InvalidRequestError, match="prediction"):
        answer("llama", prediction=prediction)


def test_a_gate_stops_predictions_too(answer: Answer) -> None:
    found = answer("mamba", max_tokens=20, **predicting(WORDS))
    assert "roll back" in (found.answer.atelico.speculation.reason or "")
    assert found.text == answer("mamba", max_tokens=20).text


# --- memories -----------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(tiny_folder: Path) -> Iterator[Chat]:
    """A model whose memories are empty."""
    with Engine(ALONE) as engine:
        yield Chat(engine, str(tiny_folder / "llama.gguf"))


def test_earlier_answers_to_a_schema_draft_the_next_one(fresh: Chat) -> None:
    def ask(seed: int, **fields: Any) -> tuple[str, dict[str, int]]:
        found = fresh.ask(WORDS, max_tokens=60, response_format=SHEET, temperature=0.7, seed=seed, **fields)
        return found.choices[0].message.content or "", found.atelico.speculation.sources

    plain = [ask(seed)[0] for seed in range(4)]
    drafted = [ask(seed, **speculative("prompt_lookup", 8)) for seed in range(4)]
    assert [text for text, _ in drafted] == plain
    first, *later = (sources.get("schema", 0) for _, sources in drafted)
    assert sum(later) > first  # which can only learn from its own beginning


def test_the_memory_of_one_schema_says_nothing_about_another(fresh: Chat) -> None:
    drafting = speculative("prompt_lookup", 8)
    fresh.ask(WORDS, max_tokens=60, response_format=SHEET, **drafting)
    other = {"type": "json_schema", "json_schema": {"name": "other", "schema": {"type": "array", "maxItems": 3}}}
    assert (
        "schema" not in fresh.ask(WORDS, max_tokens=30, response_format=other, **drafting).atelico.speculation.sources
    )
    again = fresh.ask(WORDS, max_tokens=60, response_format=SHEET, **drafting)
    assert again.atelico.speculation.sources["schema"] > 0


@pytest.mark.parametrize("fields", [{"response_format": SHEET}, {}], ids=["schema", "free"])
def test_with_memory_off_a_request_neither_takes_nor_leaves_anything(fresh: Chat, fields: dict[str, Any]) -> None:
    body = {"max_tokens": 60, "speculative": {"proposer": "lookahead", "k": 8}, **fields}
    alone = {"atelico": {"governor": "off", "memory": "off"}}
    memories = fresh.loaded.memories
    text = fresh.text(WORDS, **body, **alone)
    assert (len(memories.pool), len(memories.schemas)) == (0, 0)
    fresh.ask(WORDS, **body, **UNGOVERNED)
    found = fresh.ask(WORDS, **body, **alone)
    assert found.choices[0].message.content == text
    assert "schema" not in found.atelico.speculation.sources
    assert fresh.ask(WORDS, **body, **UNGOVERNED).atelico.speculation.accepted > found.atelico.speculation.accepted


# --- networks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "proposer"), [("head-aligned", "mtp"), ("drafted", "draft_model")])
def test_drafting_with_the_samplers_own_noise_agrees_more_often(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, model: str, proposer: str
) -> None:
    def accepted() -> int:
        total = 0
        for seed in range(5):
            fields = {"temperature": 1.0, "seed": seed, "max_tokens": 80}
            drafted = answer(model, **fields, **speculative(proposer, 2))
            assert first_difference(answer(model, **fields), drafted) is None
            total += drafted.accepted
        return total

    coupled = accepted()
    monkeypatch.setattr(drafters, "as_sampled_by", lambda _sampler, _n_vocab: pick.greedy)
    assert coupled > 1.5 * accepted()


# --- a real model -------------------------------------------------------------------------------------------------


def test_a_real_answer_is_the_same_with_every_source(smol: Chat) -> None:
    body: dict[str, Any] = {"max_tokens": 40, "cache_prompt": False}
    plain = smol.text(REPEAT, **body)
    for fields in (
        speculative("prompt_lookup", 8),
        speculative("lookahead", 8),
        speculative("auto", 8),
        {**predicting(plain), **UNGOVERNED},
    ):
        found = smol.ask(REPEAT, **body, **fields)
        assert found.choices[0].message.content == plain
        assert found.atelico.speculation.active
    assert found.atelico.speculation.sources["prediction"] > 15
