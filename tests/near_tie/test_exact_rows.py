"""A row has the bits it has alone in every batch that we make; where it has not, near ties are guarded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from atelico import Engine, EngineConfig
from atelico.decoding import near_tie
from atelico.models.gguf import read_gguf
from atelico.models.packaged import PACKAGED, installed_parts
from atelico.runtime import kernels
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from support.chat import GEMMA, SMOLLM2
from support.memory import holds_exactly_the_returned_tokens
from support.observe import run
from support.prompts import PROMPTS, request, speculative

# Our kernels have no near ties; tests/kernels/test_llama_cpp_kernels.py runs these in a process of their own.
pytestmark = pytest.mark.skipif(kernels.own_tier() is not None, reason="for llama.cpp's kernels")

Installed = Callable[[str], str]
MODES: list[dict[str, Any]] = [{"temperature": 0}, {"temperature": 0.8, "seed": 7}]


@pytest.fixture
def installed_model() -> Installed:
    """The name it is given; skips the test where that model's package is not installed."""

    def checked(name: str) -> str:
        if installed_parts(next(model for model in PACKAGED if model.name == name)) is None:
            pytest.skip(f"the pip package of {name} is not installed")
        return name

    return checked


@pytest.fixture(scope="module")
def alone() -> Iterator[Engine]:
    """One lane and nothing kept."""
    with Engine(EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0)) as engine:
        yield engine


@pytest.mark.parametrize("name", [SMOLLM2, GEMMA])
@pytest.mark.parametrize("n_before", [40, 270])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(
    installed_model: Installed, name: str, n_before: int, n_threads: int
) -> None:
    with Engine(EngineConfig()) as engine:
        info = read_gguf(engine.resolve(installed_model(name)).path)
    n_exact = kernels.exact_rows(info.matrix_types, "cpu")
    model = Model(info.path, ModelOptions(n_gpu_layers=0, repack=kernels.repacks_exactly(info.matrix_types)))
    sizes = ContextOptions(
        n_ctx=384, n_cells=384, n_batch=64, n_sequences=2, n_outputs=8, n_threads=n_threads, n_exact=n_exact
    )
    context = Context(model, sizes)
    try:
        tokens = model.vocabulary.tokenize(" ".join(PROMPTS.values()))[: n_before + n_exact]
        for start in range(0, n_before, 64):
            rows = enumerate(tokens[start : min(start + 64, n_before)], start)
            context.decode([Row(token, i, 0, False) for i, token in rows])
        after = list(enumerate(tokens[n_before:], n_before))
        alone = {i: np.array(context.decode([Row(token, i, 0, True)])) for i, token in after}
        for width in sorted({7, n_exact}):
            context.clear(1)
            context.share(0, 1, n_before)
            wanted = range(n_before + width - 1, n_before - 1, -(width // 7))  # as many as there may be outputs
            batch = context.decode([Row(token, i, 1, i in wanted) for i, token in after[:width]])
            assert batch is not None
            assert (np.concatenate([alone[i] for i in sorted(wanted)]) == batch).all()
    finally:
        context.close()
        model.close()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("name", [SMOLLM2, GEMMA])
def test_long_drafts_change_no_text(alone: Engine, installed_model: Installed, name: str, mode: dict[str, Any]) -> None:
    body = request(installed_model(name), PROMPTS["grounded"], max_tokens=96, **mode)
    plain = run(alone, body)
    drafted = run(alone, {**body, **speculative("prompt_lookup", 16)})
    assert drafted.output == plain.output
    assert drafted.accepted > 0


def test_only_a_request_without_guard_has_batches_wider_than_the_exact_ones(
    alone: Engine, installed_model: Installed
) -> None:
    body = {**request(installed_model(GEMMA), PROMPTS["grounded"], max_tokens=64, temperature=0)}
    widest = {}
    for guard in ("on", "off"):
        options = {"speculative": {"proposer": "prompt_lookup", "k": 16}}
        drafted = run(alone, {**body, **options, "atelico": {"governor": "off", "near_tie": guard}})
        widest[guard] = max(len(rows) for rows in drafted.passes[1:])
    assert widest["on"] == 7
    assert widest["off"] > 7


@pytest.fixture
def all_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row of a batch is a near tie, and no width ever proves exact."""
    monkeypatch.setattr(near_tie.NoiseGauge, "threshold", lambda _self, n_rows, _n_cells: 1e30 if n_rows > 1 else 0.0)


@pytest.mark.usefixtures("all_near")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_near_tie_is_decided_by_a_row_of_its_own_and_leaves_no_trace(
    alone: Engine, installed_model: Installed, mode: dict[str, Any]
) -> None:
    body = request(installed_model(SMOLLM2), PROMPTS["json"], max_tokens=40, logprobs=True, **mode)
    plain = run(alone, body)
    drafted = run(alone, {**body, **speculative("prompt_lookup", 5)})
    n_again = drafted.answer.atelico.speculation.near_ties
    assert n_again > 0
    assert drafted.accepted == 0, "every draft token was decided by a pass of its own"
    assert drafted.output == plain.output
    assert drafted.answer.choices[0].logprobs == plain.answer.choices[0].logprobs
    assert holds_exactly_the_returned_tokens(drafted)
    assert sum(len(rows) == 1 for rows in drafted.passes) >= n_again


@pytest.mark.usefixtures("all_near")
def test_near_ties_of_several_lanes_are_decided_one_by_one(alone: Engine, installed_model: Installed) -> None:
    name = installed_model(SMOLLM2)
    fields = {"max_tokens": 12, "temperature": 0, "seed": 1, "cache_prompt": False}
    # No pass of 64 rows and more, which prompts are read by other kernels in.
    with Engine(EngineConfig(n_ctx=256, n_threads=1, n_lanes=3, n_batch=48)) as engine:
        jobs = [
            engine.submit({"model": name, "messages": [{"role": "user", "content": text}], **fields})
            for text in ("Name a river.", "Name a mountain.", "Name a town.")
        ]
        together = [job.result(120) for job in jobs]
    assert sum(answer.atelico.speculation.near_ties for answer in together) > 0
    for answer, text in zip(together, ("Name a river.", "Name a mountain.", "Name a town."), strict=True):
        apart = alone.chat_completion({"model": name, "messages": [{"role": "user", "content": text}], **fields})
        assert answer.choices[0].message.content == apart.choices[0].message.content


def test_without_a_guard_nothing_is_decoded_again(alone: Engine, installed_model: Installed) -> None:
    body = request(installed_model(GEMMA), PROMPTS["list"], max_tokens=48, temperature=0)
    options = {"speculative": {"proposer": "prompt_lookup", "k": 8}, "atelico": {"governor": "off", "near_tie": "off"}}
    assert run(alone, {**body, **options}).answer.atelico.speculation.near_ties == 0
