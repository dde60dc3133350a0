"""A smaller model drafts: same text for any k, its memory in step, found by configuration or by name, or missed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atelico import Engine, EngineConfig
from atelico.models.catalog import Catalog
from atelico.models.drafter_file import find_drafter
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.vocabulary_match import mismatch
from support.chat import SMOLLM2, Chat
from support.near_tie import first_difference
from support.observe import loaded_model, run
from support.prompts import request, speculative
from support.tiny_answers import WORDS, Answer
from support.tiny_models import write_tiny


@pytest.mark.parametrize("fields", [{}, {"temperature": 0.8, "seed": 5}], ids=["greedy", "seeded"])
def test_the_text_is_the_plain_one_for_any_k(answer: Answer, fields: dict[str, Any]) -> None:
    plain = answer("drafted", max_tokens=300, **fields)
    for k in (1, 2, 5, 16):
        drafted = answer("drafted", max_tokens=300, **fields, **speculative("draft_model", k))
        assert 0 < drafted.accepted < drafted.proposed
        assert set(drafted.answer.atelico.speculation.sources) == {"draft"}
        assert first_difference(plain, drafted) is None


def test_auto_takes_the_drafter_beside_the_model(answer: Answer) -> None:
    found = answer("drafted", **speculative("auto", 4)).answer.atelico.speculation
    assert (found.proposer, set(found.sources)) == ("auto", {"draft"})


def test_the_drafters_memory_holds_what_the_lane_has_and_is_continued_by_the_next_request(
    tiny_engine: Engine, tiny_folder: Path
) -> None:
    body = request(
        str(tiny_folder / "drafted.gguf"), WORDS, max_tokens=40, temperature=0, **speculative("draft_model", 4)
    )
    first = run(tiny_engine, body)
    drafters = loaded_model(tiny_engine, body["model"]).drafters
    assert drafters._draft_model is not None
    (slot,) = drafters._draft_model._free
    known = [*first.prompt, *first.output]
    n_same = next((i for i, (a, b) in enumerate(zip(slot.tokens, known, strict=False)) if a != b), len(slot.tokens))
    assert drafters._draft_model.context.length(slot.id) == len(slot.tokens)
    assert n_same >= len(known) - 1 - 4  # all but the last round
    run(tiny_engine, body)
    assert slot.tokens[: len(first.prompt)] == list(first.prompt)


def test_lanes_draft_beside_each_other(tiny_folder: Path) -> None:
    model = str(tiny_folder / "drafted.gguf")
    bodies = [
        request(model, text, max_tokens=80, temperature=0, **speculative("draft_model", 3))
        for text in (WORDS, "the stone", "her key is old, and the river near the mill took it", "mage thief warrior")
    ]
    with Engine(EngineConfig(n_ctx=512, n_threads=1, n_lanes=2, n_kept=0)) as engine:
        alone = [engine.chat_completion(body, 60).choices[0].message.content for body in bodies]
        jobs = [engine.submit(body) for body in bodies]
        assert [job.result(60).choices[0].message.content for job in jobs] == alone
        drafters = loaded_model(engine, model).drafters
        assert drafters._draft_model is not None
        assert sorted(slot.id for slot in drafters._draft_model._free) == [0, 1]


def test_a_context_that_the_drafter_does_not_reach_goes_on_without_drafts(tmp_path: Path) -> None:
    model = write_tiny("llama", tmp_path / "long.gguf", noise=0.7, seed=2)
    write_tiny("llama", tmp_path / "long-draft.gguf", noise=0.3, seed=2, n_layer=1, n_ctx=64)
    body = request(str(model), WORDS, max_tokens=120, temperature=0)
    with Engine(EngineConfig(n_ctx=256, n_threads=1, n_lanes=1, n_kept=0)) as engine:
        plain = engine.chat_completion(body, 60)
        drafted = engine.chat_completion({**body, **speculative("draft_model", 4)}, 60)
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    assert drafted.usage.completion_tokens == plain.usage.completion_tokens
    assert drafted.atelico.speculation.proposed < 100


def test_a_real_model_that_drafts_for_itself_is_nearly_always_right(smol: Chat) -> None:
    config = EngineConfig(n_ctx=512, n_threads=1, n_lanes=1, n_kept=0, drafters={SMOLLM2: SMOLLM2})
    with Engine(config) as engine:
        body = request(SMOLLM2, "Who keeps a lighthouse?", max_tokens=32, temperature=0)
        plain = engine.chat_completion(body, 120)
        drafted = engine.chat_completion({**body, **speculative("draft_model", 3)}, 120)
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    found = drafted.atelico.speculation
    assert found.proposed > 10
    assert found.accepted >= 0.8 * found.proposed


# --- which file ---------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("big", "small", "alone", "beside", "beside-draft"):
        (tmp_path / f"{name}.gguf").write_bytes(b"")
    return tmp_path


def test_a_configured_drafter_goes_before_one_beside_the_model(folder: Path) -> None:
    catalog = Catalog(folders=[folder])
    drafters = {"nowhere": "small", "big": "small"}
    assert find_drafter(folder / "big.gguf", drafters, catalog) == folder / "small.gguf"
    assert find_drafter(folder / "beside.gguf", drafters, catalog) == folder / "beside-draft.gguf"
    assert find_drafter(folder / "beside.gguf", {"beside": "small"}, catalog) == folder / "small.gguf"
    assert find_drafter(folder / "alone.gguf", drafters, catalog) is None


# --- drafters that cannot be used ---------------------------------------------------------------------------------


def reason_of(config: EngineConfig, model: Path) -> str:
    body = request(str(model), WORDS, max_tokens=4, temperature=0, **speculative("draft_model", 2))
    with Engine(config) as engine:
        found = engine.chat_completion(body, 60)
        again = engine.chat_completion(body, 60)
    assert not found.atelico.speculation.active
    assert found.usage.completion_tokens == 4
    assert found.atelico.speculation.reason == again.atelico.speculation.reason
    return found.atelico.speculation.reason or ""


def test_without_a_drafter_the_reason_says_how_to_have_one(answer: Answer) -> None:
    assert "drafters = {target = drafter}" in (
        answer("llama", max_tokens=4, **speculative("draft_model", 2)).answer.atelico.speculation.reason or ""
    )


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    yield write_tiny("llama", tmp_path / "target.gguf")


def test_a_drafter_that_does_not_exist_is_named(target: Path) -> None:
    config = EngineConfig(n_ctx=128, n_threads=1, drafters={str(target): "no-such-model"})
    assert "no-such-model" in reason_of(config, target)


def test_a_drafter_that_is_no_model_is_named(target: Path, tmp_path: Path) -> None:
    (tmp_path / "target-draft.gguf").write_bytes(b"GGUF, or so it says")
    assert "target-draft.gguf" in reason_of(EngineConfig(n_ctx=128, n_threads=1), target)


def test_a_drafter_with_recurrent_memory_is_refused(target: Path, tmp_path: Path) -> None:
    write_tiny("mamba", tmp_path / "target-draft.gguf")
    assert "recurrent" in reason_of(EngineConfig(n_ctx=128, n_threads=1), target)


def test_a_drafter_of_another_vocabulary_is_refused(target: Path, tmp_path: Path, smollm2_file: Path) -> None:
    shutil.copy(smollm2_file, tmp_path / "target-draft.gguf")
    assert "vocabulary" in reason_of(EngineConfig(n_ctx=128, n_threads=1), target)


def test_models_of_one_vocabulary_match_and_others_say_where_they_differ(tiny_folder: Path, smollm2_file: Path) -> None:
    models = [
        Model(path, ModelOptions()) for path in (tiny_folder / "llama.gguf", tiny_folder / "gemma3.gguf", smollm2_file)
    ]
    try:
        assert mismatch(models[0], models[1]) is None
        assert mismatch(models[0], models[2]) is not None
    finally:
        for model in models:
            model.close()
