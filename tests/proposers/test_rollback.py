"""Taking rejected drafts back: what each kind of memory allows, what it refuses, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from atelico import Engine
from atelico.errors import InferenceError
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from support.near_tie import first_difference
from support.observe import loaded_model, run
from support.prompts import request, speculative
from support.scripted import Scripted, always, installed, replaying
from support.tiny_answers import WORDS

EXACT = ["lfm2", "nemotron_h", "qwen35"]
HYBRID = [*EXACT, "qwen35moe"]
N_STATES = 4

OPTIONS = ContextOptions(
    n_ctx=1024, n_cells=1024, n_batch=64, n_sequences=2, n_outputs=64, n_threads=1, n_rollback=N_STATES
)
MakeContext = Callable[[str], Context]


@pytest.fixture
def context_of(tiny_folder: Path) -> Iterator[MakeContext]:
    """Makes a context of a tiny model."""
    opened: list[Model | Context] = []

    def make(name: str) -> Context:
        model = Model(tiny_folder / f"{name}.gguf", ModelOptions())
        context = Context(model, OPTIONS)
        opened.extend([model, context])
        return context

    yield make
    for one in reversed(opened):
        one.close()


def decode(context: Context, tokens: Sequence[int], sequence: int = 0) -> np.ndarray[Any, Any]:
    """Appends `tokens`; the logits of the last one."""
    start = context.length(sequence)
    logits = context.decode([Row(t, start + i, sequence, i == len(tokens) - 1) for i, t in enumerate(tokens)])
    assert logits is not None
    return logits[0].copy()


@pytest.mark.parametrize("name", HYBRID)
def test_a_hybrid_state_goes_back_as_far_as_the_last_pass_recorded_it(context_of: MakeContext, name: str) -> None:
    context = context_of(name)
    assert context.n_rollback == N_STATES
    decode(context, range(20, 40))
    assert context.can_truncate(0, 16)
    assert not context.can_truncate(0, 15)  # deeper than the states kept
    decode(context, [41, 42, 43])
    assert context.can_truncate(0, 21)
    assert not context.can_truncate(0, 20)  # the state before this pass is not among them
    decode(context, [44])
    assert not context.can_truncate(0, 23)  # after a pass of one token there is nothing to go back to
    assert context.length(0) == 24


@pytest.mark.parametrize("name", HYBRID)
def test_a_second_cut_needs_a_pass_in_between(context_of: MakeContext, name: str) -> None:
    context = context_of(name)
    decode(context, range(20, 40))
    assert context.truncate(0, 18)
    assert not context.truncate(0, 17)
    assert context.length(0) == 18
    decode(context, [41, 42])
    assert context.truncate(0, 19)


@pytest.mark.parametrize("name", HYBRID)
def test_a_refused_cut_changes_nothing(context_of: MakeContext, name: str) -> None:
    context = context_of(name)
    decode(context, range(20, 40), sequence=0)
    decode(context, range(20, 40), sequence=1)
    assert not context.truncate(0, 3)
    assert np.array_equal(decode(context, [41], sequence=0), decode(context, [41], sequence=1))


@pytest.mark.parametrize("name", HYBRID)
def test_what_was_taken_back_leaves_no_trace_to_the_bit(context_of: MakeContext, name: str) -> None:
    context = context_of(name)
    rows = []
    for sequence, rejected in enumerate(([50, 51], [90, 33])):
        decode(context, range(20, 40), sequence)
        decode(context, [41, 42, *rejected], sequence)
        assert context.truncate(sequence, 22)
        rows.append(decode(context, [43], sequence))
    assert np.array_equal(rows[0], rows[1])


def test_a_restored_state_has_nothing_to_go_back_to(context_of: MakeContext) -> None:
    context = context_of("qwen35")
    decode(context, range(20, 40))
    assert context.restore(1, context.state(0))
    assert context.length(1) == 20
    assert not context.can_truncate(1, 19)
    assert context.can_truncate(1, 0)


def test_recurrent_memory_can_only_be_forgotten_whole(context_of: MakeContext) -> None:
    context = context_of("mamba")
    assert context.n_rollback == 0
    decode(context, range(20, 40))
    assert not context.truncate(0, 19)
    assert context.truncate(0, 20)
    assert context.truncate(0, 0)
    assert context.length(0) == 0


@pytest.mark.parametrize("name", ["mamba", *HYBRID])
def test_a_recurrent_sequence_is_never_shared(context_of: MakeContext, name: str) -> None:
    context = context_of(name)
    decode(context, range(20, 40))
    with pytest.raises(InferenceError, match="shared"):
        context.share(0, 1, 20)


def test_attention_is_cut_anywhere_and_twice(context_of: MakeContext) -> None:
    context = context_of("llama")
    decode(context, range(20, 40))
    assert context.truncate(0, 7)
    assert context.truncate(0, 5)
    fresh = decode(context, [27, 28], sequence=0)
    decode(context, range(20, 25), sequence=1)
    assert np.abs(fresh - decode(context, [27, 28], sequence=1)).max() < 1e-2


def test_a_window_is_cut_only_where_it_still_holds_what_it_then_needs(
    context_of: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = llama_cpp.llama_context_default_params

    def windowed() -> Any:
        parameters = defaults()
        parameters.swa_full = False
        return parameters

    monkeypatch.setattr(llama_cpp, "llama_context_default_params", windowed)
    context = context_of("gemma3")  # a window of 32 tokens
    for start in range(0, 800, 40):
        decode(context, [20 + (start + i) % 200 for i in range(40)])
    assert context.can_truncate(0, 795)
    assert not context.can_truncate(0, 40)
    assert not context.truncate(0, 40)
    assert context.length(0) == 800


@pytest.mark.parametrize("name", EXACT)
def test_rejected_drafts_leave_the_text_of_a_hybrid_model_as_it_was(
    tiny_engine: Engine, tiny_folder: Path, name: str
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=300, temperature=0)
    plain = run(tiny_engine, body)
    with installed(Scripted(always([37] * 8))) as drafting:
        wrong = run(tiny_engine, {**body, **drafting})
    assert len(plain.output) == 300
    assert wrong.answer.atelico.speculation.active
    assert wrong.proposed > 1000
    assert wrong.accepted == 0
    assert first_difference(plain, wrong) is None


@pytest.mark.parametrize("name", EXACT)
def test_accepted_drafts_leave_the_text_of_a_hybrid_model_as_it_was(
    tiny_engine: Engine, tiny_folder: Path, name: str
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=300, temperature=0)
    plain = run(tiny_engine, body)
    with installed(Scripted(replaying([*plain.prompt, *plain.output]))) as drafting:
        right = run(tiny_engine, {**body, **drafting})
    assert right.accepted == right.proposed > 200
    looked_up = run(tiny_engine, {**body, **speculative("prompt_lookup", 4)})
    assert looked_up.accepted > 0
    for drafted in (right, looked_up):
        assert first_difference(plain, drafted) is None
    assert max(len(rows) for rows in looked_up.passes[1:]) <= 1 + N_STATES
    assert loaded_model(tiny_engine, body["model"]).context.n_rollback == N_STATES


@pytest.mark.parametrize("name", EXACT)
def test_a_quantised_hybrid_has_the_log_probabilities_of_plain_decoding_to_the_bit(
    tiny_engine: Engine, tiny_folder: Path, name: str
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=200, temperature=0, logprobs=True)
    plain = run(tiny_engine, body)
    drafted = run(tiny_engine, {**body, **speculative("prompt_lookup", 4)})
    assert 0 < drafted.accepted < drafted.proposed
    assert drafted.answer.choices[0].logprobs == plain.answer.choices[0].logprobs is not None
