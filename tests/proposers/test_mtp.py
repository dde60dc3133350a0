"""The NextN head: same text for any k, its memory in step with what was accepted, its absence told with the reason."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from msgspec.structs import replace

from atelico import Engine, EngineConfig
from atelico.errors import InferenceError
from atelico.runtime import mtp
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.mtp import HeadContext
from atelico.speculation.mtp import Head, HeadDrafter
from support.near_tie import first_difference
from support.observe import loaded_model, run
from support.prompts import request, speculative
from support.tiny_answers import ALONE, SHEET, WORDS, Answer
from support.tiny_models import write_tiny


@pytest.mark.parametrize("head", ["aligned", "random"])
@pytest.mark.parametrize("fields", [{}, {"temperature": 0.8, "seed": 5}], ids=["greedy", "seeded"])
def test_the_text_is_the_plain_one_for_any_k(answer: Answer, head: str, fields: dict[str, Any]) -> None:
    plain = answer(f"head-{head}", max_tokens=300, **fields)
    for k in (1, 2, 4, 16):
        drafted = answer(f"head-{head}", max_tokens=300, **fields, **speculative("mtp", k))
        assert drafted.answer.atelico.speculation.active
        assert drafted.proposed > 0
        assert first_difference(plain, drafted) is None
        assert max(len(rows) for rows in drafted.passes[1:]) <= 1 + min(k, 4)


def test_a_model_of_experts_drafts_with_its_head_where_nobody_asks_for_exactness(tiny_folder: Path) -> None:
    body = request(str(tiny_folder / "head-of-experts.gguf"), WORDS, max_tokens=100, temperature=0)
    with Engine(replace(ALONE, exact=False)) as engine:
        plain = run(engine, body)
        drafted = run(engine, {**body, **speculative("mtp", 2)})
    assert 0 < drafted.accepted < drafted.proposed
    assert first_difference(plain, drafted) is None


def test_a_good_head_is_often_right_and_a_random_one_never(answer: Answer) -> None:
    good = answer("head-aligned", **speculative("nextn", 2)).answer.atelico.speculation
    assert good.proposer == "mtp"
    assert good.sources == {"mtp": good.accepted}
    assert good.acceptance_rate is not None and good.acceptance_rate > 0.5
    bad = answer("head-random", **speculative("mtp", 2))
    assert (bad.accepted, bad.proposed > 100) == (0, True)


def test_the_default_is_two_tokens(answer: Answer) -> None:
    found = answer("head-aligned", speculative={"proposer": "mtp"}, atelico={"governor": "off"})
    assert max(len(rows) for rows in found.passes[1:]) == 3


def test_auto_takes_the_models_own_head(answer: Answer) -> None:
    found = answer("head-aligned", **speculative("auto", 2)).answer.atelico.speculation
    assert (found.proposer, set(found.sources)) == ("auto", {"mtp"})


def test_the_head_goes_on_after_what_a_grammar_forces(answer: Answer) -> None:
    plain = answer("head-aligned", response_format=SHEET, max_tokens=80)
    drafted = answer("head-aligned", response_format=SHEET, max_tokens=80, **speculative("mtp", 4))
    assert first_difference(plain, drafted) is None
    assert drafted.answer.atelico.speculation.proposed_sources.keys() >= {"mtp", "grammar"}


def test_the_governor_stops_a_head_that_is_never_right(answer: Answer) -> None:
    found = answer("head-random", max_tokens=300, speculative={"proposer": "mtp"})
    assert found.proposed < 60
    assert found.text == answer("head-random", max_tokens=300).text


def test_lanes_draft_beside_each_other(tmp_path: Path) -> None:
    # Of floats, so that batches of any shape agree far beyond a near tie.
    model = str(write_tiny("qwen35", tmp_path / "head.gguf", noise=0.5, seed=2, head="aligned"))
    bodies = [
        request(model, text, max_tokens=80, temperature=0, **speculative("mtp", 2))
        for text in (WORDS, "the stone", "her key is old, and the river near the mill took it", "mage thief warrior")
    ]
    with Engine(EngineConfig(n_ctx=512, n_threads=1, n_lanes=2, n_kept=0, exact=False)) as engine:
        alone = [engine.chat_completion(body, 60) for body in bodies]
        together = [job.result(60) for job in [engine.submit(body) for body in bodies]]
        head = loaded_model(engine, model).drafters._head
    assert [a.choices[0].message.content for a in together] == [a.choices[0].message.content for a in alone]
    assert all(a.atelico.speculation.accepted > 0 for a in together)
    assert head is not None and sorted(head._free) == [0, 1]


def test_a_cancelled_request_gives_its_place_in_the_head_back(tiny_engine: Engine, tiny_folder: Path) -> None:
    model = str(tiny_folder / "head-random.gguf")
    job = tiny_engine.submit(request(model, WORDS, max_tokens=900, temperature=0, stream=True, **speculative("mtp", 2)))
    next(iter(job.chunks()))
    job.cancel()
    assert job.result(60).choices[0].finish_reason == "cancelled"
    after = tiny_engine.chat_completion(
        request(model, WORDS, max_tokens=20, temperature=0, **speculative("mtp", 2)), 60
    )
    assert after.atelico.speculation.proposed > 0
    assert after.choices[0].finish_reason == "length"


def test_a_head_that_fails_costs_speed_and_never_the_request(answer: Answer) -> None:
    plain = answer("head-aligned", max_tokens=40)
    with mock.patch.object(HeadContext, "decode", side_effect=InferenceError("on purpose")):
        failed = answer("head-aligned", max_tokens=40, **speculative("mtp", 2))
    assert failed.text == plain.text
    assert failed.answer.atelico.speculation.reason == "proposer 'mtp' failed"
    assert answer("head-aligned", max_tokens=40, **speculative("mtp", 2)).accepted > 0


# --- the head's memory --------------------------------------------------------------------------------------------


@pytest.fixture
def parts(tiny_folder: Path) -> Iterator[tuple[Context, Head]]:
    """A model with its head, two sequences each."""
    model = Model(tiny_folder / "head-random.gguf", ModelOptions(load_head=True))
    sizes = ContextOptions(n_ctx=512, n_cells=512, n_batch=64, n_sequences=2, n_outputs=64, n_threads=1, n_rollback=4)
    context = Context(model, sizes)
    head = Head(HeadContext(model, n_cells=512, n_sequences=2, n_threads=1, n_batch=48, abort=None), 2, frozenset())
    yield context, head
    head.close()
    context.close()
    model.close()


def feed(context: Context, drafter: HeadDrafter, sequence: int, position: int, tokens: Sequence[int]) -> None:
    """Decodes `tokens` and shows the drafter their hidden states."""
    assert context.decode([Row(t, position + i, sequence, True) for i, t in enumerate(tokens)]) is not None
    drafter.read(position, context.hidden(0, len(tokens)))


def test_after_any_rounds_the_head_says_what_one_says_that_saw_only_the_accepted_tokens(
    parts: tuple[Context, Head],
) -> None:
    context, head = parts
    random = np.random.default_rng(3)
    tokens = [int(t) for t in random.integers(20, 250, 160)]
    followed = HeadDrafter(head, n_prompt=0)
    followed.observe(tokens[:100])
    for first in range(0, 100, 50):
        feed(context, followed, 0, first, tokens[first : first + 50])
    n = 100
    while n < 150:
        followed.observe(tokens[n : n + 1])  # the pending token
        if n % 3:  # a round in which nobody asks for a draft
            followed.propose([], 3)
        n_right = int(random.integers(0, 3))
        feed(context, followed, 0, n, [*tokens[n : n + 1 + n_right], *random.integers(20, 250, 3 - n_right).tolist()])
        assert context.truncate(0, n + 1 + n_right)
        followed.observe(tokens[n + 1 : n + 1 + n_right])
        n += 1 + n_right
    followed.observe(tokens[n : n + 1])
    fresh = HeadDrafter(head, n_prompt=0)
    fresh.observe(tokens[: n + 1])
    for first in range(0, n, 50):
        feed(context, fresh, 1, first, tokens[first : min(first + 50, n)])
    assert fresh.propose([], 8) == followed.propose([], 8)
    assert fresh.propose([33, 44], 4) == followed.propose([33, 44], 4)


def test_proposing_leaves_no_trace(parts: tuple[Context, Head]) -> None:
    context, head = parts
    drafter = HeadDrafter(head, n_prompt=0)
    drafter.observe(range(20, 61))
    feed(context, drafter, 0, 0, range(20, 60))
    first = drafter.propose([], 6)
    assert len(first) == 6
    drafter.propose([99, 98], 6)
    assert drafter.propose([], 6) == first
    assert drafter.propose([], 0) == []


def test_a_head_that_starts_in_the_middle_drafts_all_the_same(parts: tuple[Context, Head]) -> None:
    context, head = parts
    drafter = HeadDrafter(head, n_prompt=0)
    drafter.observe(range(20, 61))
    assert drafter.propose([], 2) == []  # nothing has been decoded yet
    assert context.decode([Row(20 + i, i, 0, False) for i in range(30)]) is not None
    feed(context, drafter, 0, 30, range(50, 60))
    assert len(drafter.propose([], 2)) == 2


def test_lanes_beyond_the_heads_sequences_are_refused_and_places_come_back(parts: tuple[Context, Head]) -> None:
    context, head = parts
    drafters = [HeadDrafter(head, n_prompt=0) for _ in range(3)]
    for i, drafter in enumerate(drafters[:2]):
        feed(context, drafter, i, 0, [20, 21])
    with pytest.raises(InferenceError, match="in use"):
        feed(context, drafters[2], 0, 2, [22])
    drafters[0].close()
    drafters[0].close()
    feed(context, drafters[2], 0, 3, [23])
    assert head._free == []


# --- files without a usable head ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (("qwen35", 0, False), "no NextN"),
        (("qwen35", 1, False), "tensors are missing"),
        (("exaone4", 1, True), "cannot run the NextN head of architecture 'exaone4'"),
        (("step35", 3, True), "3 NextN heads in a chain"),
    ],
    ids=str,
)
def test_why_a_file_has_no_head_that_can_draft(facts: tuple[str, int, bool], words: str) -> None:
    architecture, n_heads, has_tensors = facts
    assert words in (mtp.why_not(architecture, n_heads, has_tensors=has_tensors) or "")


def test_a_file_with_a_head_can_draft() -> None:
    assert mtp.why_not("qwen35", 1, has_tensors=True) is None


def test_a_build_without_the_functions_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mtp, "extension", lambda: None)
    assert "does not export" in (mtp.why_not("qwen35", 1, has_tensors=True) or "")


@pytest.mark.parametrize("model", ["llama", "mamba", "lfm2"])
def test_without_a_head_the_answer_is_plain_with_the_reason(answer: Answer, model: str) -> None:
    found = answer(model, max_tokens=20, **speculative("mtp", 2))
    reason = found.answer.atelico.speculation.reason or ""
    assert "NextN" in reason if model != "mamba" else "roll back" in reason
    assert found.text == answer(model, max_tokens=20).text


@pytest.mark.parametrize(("device", "model"), [("metal", "head-aligned"), ("cuda", "head-of-experts")])
def test_a_head_on_memory_that_cannot_roll_back_is_not_used(tiny_folder: Path, device: str, model: str) -> None:
    body = request(str(tiny_folder / f"{model}.gguf"), WORDS, max_tokens=8, temperature=0, **speculative("mtp", 2))
    with Engine(EngineConfig(n_ctx=256, n_threads=1, n_lanes=1, n_kept=0, device=device)) as engine:
        found = engine.chat_completion(body, 60).atelico.speculation
        assert loaded_model(engine, body["model"]).drafters._head is None
    assert not found.active
    assert "cannot roll back a rejected draft" in (found.reason or "")


_LOAD = """
import sys
from atelico import AtelicoError, Engine, EngineConfig
with Engine(EngineConfig(n_ctx=256, n_threads=1)) as engine:
    try:
        engine.chat_completion({"model": sys.argv[1], "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4,
                                "speculative": {"proposer": "mtp"}}, 60)
        print("answered")
    except AtelicoError as error:
        print(error.code)
"""


def test_a_claimed_head_without_tensors_is_an_error_and_never_the_end_of_the_process(tmp_path: Path) -> None:
    model = write_tiny("qwen35", tmp_path / "claimed.gguf", head="missing")
    done = subprocess.run([sys.executable, "-c", _LOAD, str(model)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "model_load_failed"), done.stderr[-2000:]


def test_a_head_that_was_not_loaded_is_refused(tiny_folder: Path) -> None:
    model = Model(tiny_folder / "head-aligned.gguf", ModelOptions())
    with pytest.raises(Exception, match="without its NextN head"):
        HeadContext(model, n_cells=64, n_sequences=1, n_threads=1, n_batch=8, abort=None)
    model.close()


def test_a_model_with_a_head_answers_the_same_whether_or_not_the_head_drafts(tiny_folder: Path) -> None:
    body = request(str(tiny_folder / "head-aligned.gguf"), WORDS, max_tokens=60, temperature=0)
    texts = []
    for fields in ({}, speculative("mtp", 2), speculative("prompt_lookup", 4)):
        with Engine(ALONE) as engine:
            texts.append(engine.chat_completion({**body, **fields}, 60).choices[0].message.content)
    assert len(set(texts)) == 1
