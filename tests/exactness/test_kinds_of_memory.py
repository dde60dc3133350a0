"""Every kind of memory: attention, a sliding window, recurrent and hybrid states. Gated ones decode plainly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.world import world_text

from atelico import Engine, EngineConfig
from atelico.runtime import kernels
from support.chat import GEMMA
from support.near_tie import first_difference
from support.observe import Run, loaded_model, run
from support.prompts import request, speculative
from support.scripted import Scripted, always, installed, replaying

WORDS = "Where is the key? The miller lost her key under the old bridge near the river."
RECURRENT = ("mamba",)
N_TOKENS = 300


def plain_and_wrong(engine: Engine, model: Path, n_tokens: int = N_TOKENS) -> tuple[Run, Run]:
    """The same greedy request plainly, and with eight wrong draft tokens in every round."""
    body = request(str(model), WORDS, max_tokens=n_tokens, temperature=0)
    plain = run(engine, body)
    with installed(Scripted(always([37] * 8))) as drafting:
        return plain, run(engine, {**body, **drafting})


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_rejected_drafts_leave_no_trace_in_attention_memory(tiny_engine: Engine, tiny_folder: Path, name: str) -> None:
    plain, wrong = plain_and_wrong(tiny_engine, tiny_folder / f"{name}.gguf")
    assert len(plain.output) == N_TOKENS
    assert wrong.proposed > 2000
    assert wrong.accepted == 0
    assert first_difference(plain, wrong) is None


def test_drafts_are_exact_past_the_end_of_a_sliding_window(tiny_engine: Engine, tiny_folder: Path) -> None:
    model = tiny_folder / "gemma3.gguf"
    window = loaded_model(tiny_engine, str(model)).info.sliding_window
    body = request(str(model), WORDS, max_tokens=N_TOKENS, temperature=0)
    plain = run(tiny_engine, body)
    assert window is not None
    assert len(plain.prompt) + len(plain.output) > 8 * window
    for k in (1, 5, 16):
        drafted = run(tiny_engine, {**body, **speculative("prompt_lookup", k)})
        assert drafted.accepted > 0
        assert drafted.accepted < drafted.proposed
        assert first_difference(plain, drafted) is None


@pytest.mark.parametrize("name", RECURRENT)
def test_a_gated_model_decodes_plainly_and_says_why(tiny_engine: Engine, tiny_folder: Path, name: str) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=60, temperature=0)
    plain = run(tiny_engine, body)
    for proposer in ("prompt_lookup", "lookahead", "auto"):
        gated = run(tiny_engine, {**body, **speculative(proposer, 5)})
        speculation = gated.answer.atelico.speculation
        assert not speculation.active
        assert speculation.reason is not None
        assert "roll back a rejected draft" in speculation.reason
        assert (speculation.rounds, speculation.proposed) == (0, 0)
        assert first_difference(plain, gated) is None
        assert [len(rows) for rows in gated.passes] == [len(rows) for rows in plain.passes]


@pytest.mark.skipif(kernels.own_tier() is None, reason="for our kernels")
@pytest.mark.parametrize("name", ["lfm2", "qwen35"])
def test_recurrent_memory_of_floats_speculates_with_our_kernels(
    tiny_engine: Engine, tiny_folder: Path, name: str
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=200, temperature=0)
    plain = run(tiny_engine, body)
    for k in (1, 3, 5):
        drafted = run(tiny_engine, {**body, **speculative("prompt_lookup", k)})
        assert drafted.answer.atelico.speculation.active
        assert drafted.accepted > 0
        assert first_difference(plain, drafted) is None


@pytest.mark.skipif(kernels.own_tier() is not None, reason="for llama.cpp's kernels")
@pytest.mark.parametrize("name", ["lfm2", "qwen35"])
def test_recurrent_memory_of_floats_is_gated_unless_nobody_asks_for_exactness(
    tiny_engine: Engine, tiny_folder: Path, name: str
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=40, temperature=0)
    gated = run(tiny_engine, {**body, **speculative("prompt_lookup", 5)}).answer.atelico.speculation
    assert not gated.active
    assert gated.reason is not None and "cannot go back to decide a near tie" in gated.reason
    with Engine(EngineConfig(n_ctx=512, n_threads=1, n_lanes=1, n_kept=0, exact=False)) as engine:
        assert run(engine, {**body, **speculative("prompt_lookup", 5)}).answer.atelico.speculation.active


@pytest.mark.parametrize("name", ["mamba", "lfm2", "qwen35-quantised"])
def test_on_metal_the_gate_names_metal(tiny_folder: Path, name: str) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=8, temperature=0)
    with Engine(EngineConfig(n_ctx=256, n_threads=1, n_lanes=1, n_kept=0, device="metal")) as engine:
        speculation = run(engine, {**body, **speculative("prompt_lookup", 5)}).answer.atelico.speculation
    assert speculation.reason == "recurrent memory on Metal cannot roll back a rejected draft"
    assert not speculation.active


def test_a_float_qwen35_stays_gated_on_cuda(tiny_folder: Path) -> None:
    body = request(str(tiny_folder / "qwen35.gguf"), WORDS, max_tokens=8, temperature=0)
    with Engine(EngineConfig(n_ctx=256, n_threads=1, n_lanes=1, n_kept=0, device="cuda")) as engine:
        speculation = run(engine, {**body, **speculative("prompt_lookup", 5)}).answer.atelico.speculation
    assert speculation.reason == "recurrent memory of a float qwen35 model cannot roll back a rejected draft"


# --- quantised qwen35, which the gates let speculate on CUDA; the memory is the same on every device --------------


@pytest.fixture(scope="module")
def rollback_engine() -> Iterator[Engine]:
    """Whose gates believe in CUDA."""
    config = EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0, max_draft=4, device="cuda")
    with Engine(config) as engine:
        yield engine


def test_a_recurrent_state_forgets_rejected_drafts(rollback_engine: Engine, tiny_folder: Path) -> None:
    model = tiny_folder / "qwen35-quantised.gguf"
    plain, wrong = plain_and_wrong(rollback_engine, model)
    assert len(plain.output) == N_TOKENS
    assert wrong.answer.atelico.speculation.active
    assert wrong.proposed > 1000
    assert wrong.accepted == 0
    assert first_difference(plain, wrong) is None


@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_recurrent_state_keeps_what_was_accepted(rollback_engine: Engine, tiny_folder: Path, k: int) -> None:
    body = request(str(tiny_folder / "qwen35-quantised.gguf"), WORDS, max_tokens=N_TOKENS, temperature=0)
    plain = run(rollback_engine, body)
    drafted = run(rollback_engine, {**body, **speculative("prompt_lookup", k)})
    assert 0 < drafted.accepted < drafted.proposed
    assert first_difference(plain, drafted) is None


def test_every_depth_of_rollback_is_exact(rollback_engine: Engine, tiny_folder: Path) -> None:
    body = request(str(tiny_folder / "qwen35-quantised.gguf"), WORDS, max_tokens=120, temperature=0)
    plain = run(rollback_engine, body)
    answer = [*plain.prompt, *plain.output]
    for n_right in range(5):  # of four draft tokens
        right = replaying(answer)

        def script(context: Any, budget: int, n_right: int = n_right) -> list[int]:
            guess = right(context, min(n_right, budget))  # noqa: B023
            return [*guess, *[37] * (budget - len(guess))]

        with installed(Scripted(script)) as drafting:
            drafted = run(rollback_engine, {**body, **drafting})
        assert first_difference(plain, drafted) is None


def test_no_draft_is_longer_than_the_state_can_be_rolled_back(rollback_engine: Engine, tiny_folder: Path) -> None:
    model = tiny_folder / "qwen35-quantised.gguf"
    assert loaded_model(rollback_engine, str(model)).context.n_rollback == 4
    _, wrong = plain_and_wrong(rollback_engine, model, n_tokens=20)
    assert max(len(rows) for rows in wrong.passes[1:]) == 1 + 4


# --- sizes at which llama.cpp would abort the process: each in a process of its own -------------------------------

_SUBPROCESS = """
import json, sys
from atelico import AtelicoError, Engine, EngineConfig
config, request = json.loads(sys.argv[1]), json.loads(sys.argv[2])
try:
    with Engine(EngineConfig(**config)) as engine:
        plain = engine.chat_completion({**request, "speculative": None})
        drafted = engine.chat_completion(request)
    texts = [answer.choices[0].message.content for answer in (plain, drafted)]
    print(json.dumps({"texts": texts, "accepted": drafted.atelico.speculation.accepted}))
except AtelicoError as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
"""


def in_a_process(config: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """What happens to `body` in an engine of this configuration; fails when the process dies."""
    command = [sys.executable, "-c", _SUBPROCESS, json.dumps(config), json.dumps(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


@pytest.mark.parametrize(
    "name, device, sizes",
    [
        ("llama", "", {"n_batch": 1}),
        ("llama", "", {"n_batch": 1, "max_draft": 0, "n_lanes": 1}),
        ("llama", "", {"n_batch": 3, "max_draft": 2, "n_lanes": 1}),
        ("llama", "", {"n_lanes": 1, "n_kept": 0, "max_draft": 256, "n_ctx": 128}),
        ("mamba", "", {"n_batch": 1, "max_draft": 0, "n_lanes": 1}),
        ("qwen35-quantised", "cuda", {"n_batch": 1}),
        ("qwen35-quantised", "cuda", {"n_batch": 2, "max_draft": 1, "n_lanes": 1}),
        ("qwen35-quantised", "cuda", {"n_batch": 4, "max_draft": 4, "n_lanes": 1}),
        ("qwen35-quantised", "cuda", {"n_batch": 1, "max_draft": 0, "n_lanes": 1}),
        ("qwen35-quantised", "cuda", {"max_draft": 16, "n_lanes": 2}),
    ],
)
def test_sizes_that_llama_cpp_would_abort_for_still_answer(
    tiny_folder: Path, name: str, device: str, sizes: dict[str, int]
) -> None:
    body = request(str(tiny_folder / f"{name}.gguf"), WORDS, max_tokens=60, temperature=0)
    body.update(speculative("prompt_lookup", 8))
    outcome = in_a_process({"n_ctx": 256, "n_threads": 1, "device": device, **sizes}, body)
    assert "error" not in outcome, outcome
    plain, drafted = outcome["texts"]
    assert plain
    assert drafted == plain


def test_a_real_model_is_exact_past_its_window(real_engine: Engine, installed_model: Callable[[str], str]) -> None:
    body = request(
        installed_model(GEMMA), f"Continue. {world_text(1, 32)}", max_tokens=40, temperature=0, logprobs=True
    )
    plain = run(real_engine, body)
    window = loaded_model(real_engine, GEMMA).info.sliding_window
    assert window is not None and len(plain.prompt) > max(700, window)
    with installed(Scripted(always([37] * 8))) as drafting:
        wrong = run(real_engine, {**body, **drafting})
    looked_up = run(real_engine, {**body, **speculative("prompt_lookup", 8)})
    assert wrong.accepted == 0 < wrong.proposed
    assert looked_up.proposed > 0
    for drafted in (wrong, looked_up):
        assert drafted.text == plain.text
        assert drafted.answer.choices[0].logprobs == plain.answer.choices[0].logprobs
        assert drafted.n_memory == plain.n_memory
