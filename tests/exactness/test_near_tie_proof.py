"""The near-tie proof accepts near ties and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atelico import Engine
from support.near_tie import MAX_GAP, Choice, NotANearTie, explained, judge, prove_near_tie, replay
from support.observe import Run, loaded_model, run
from support.prompts import request, speculative

GREEDY = Choice(temperature=0.0, seed=0)
NO_END = frozenset[int]()


def row(**logits: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """A row of five candidates."""
    values = np.zeros(5, np.float32)
    for name, logit in logits.items():
        values[int(name.removeprefix("t"))] = logit
    return values


def test_candidates_within_the_kernels_noise_are_a_near_tie() -> None:
    tie = judge(0, row(t1=5.0, t2=4.99), row(t1=4.99, t2=5.0), GREEDY, 1, 2, NO_END)
    assert tie.tokens == (1, 2)
    assert max(tie.gaps) < 0.011
    assert tie.noise == pytest.approx(0.02, abs=1e-5)


def test_candidates_far_apart_are_no_near_tie() -> None:
    with pytest.raises(NotANearTie, match="logits apart"):
        judge(0, row(t1=5.0, t2=5.0 - 2 * MAX_GAP), row(t1=5.0 - 2 * MAX_GAP, t2=5.0), GREEDY, 1, 2, NO_END)


def test_a_run_that_did_not_choose_its_best_candidate_is_refused() -> None:
    with pytest.raises(NotANearTie, match="drafted run chose 3"):
        judge(0, row(t1=5.0, t2=4.99), row(t1=4.99, t2=5.0), GREEDY, 1, 3, NO_END)
    with pytest.raises(NotANearTie, match="plain run chose 2"):
        judge(0, row(t1=5.0, t2=4.99), row(t1=4.99, t2=5.0), GREEDY, 2, 1, NO_END)


def test_rows_that_choose_alike_explain_no_difference() -> None:
    with pytest.raises(NotANearTie, match="but its row chooses 1"):
        judge(0, row(t1=5.0, t2=4.99), row(t1=5.0, t2=4.98), GREEDY, 1, 2, NO_END)


def test_an_end_token_can_be_one_of_the_candidates() -> None:
    tie = judge(0, row(t1=5.0, t2=4.99), row(t1=4.99, t2=5.0), GREEDY, 1, None, frozenset({2}))
    assert tie.tokens == (1, 2)
    with pytest.raises(NotANearTie, match="chose None"):
        judge(0, row(t1=5.0, t2=4.99), row(t1=4.99, t2=5.0), GREEDY, 1, None, NO_END)


def test_a_grammar_mask_hides_the_better_candidate() -> None:
    mask = np.array([0b00110], np.int32)
    tie = judge(0, row(t1=5.0, t2=4.99, t3=9.0), row(t1=4.99, t2=5.0, t3=9.0), Choice(0.0, 0, mask), 1, 2, NO_END)
    assert tie.tokens == (1, 2)


@pytest.fixture(scope="module")
def pair(tiny_engine: Engine, tiny_folder: Path) -> tuple[Run, Run]:
    """The same request with and without drafts."""
    body = request(str(tiny_folder / "llama.gguf"), "Where is the key?", max_tokens=60, temperature=0)
    return run(tiny_engine, body), run(tiny_engine, {**body, **speculative("prompt_lookup", 5)})


def test_equal_runs_need_no_explanation(tiny_engine: Engine, pair: tuple[Run, Run]) -> None:
    plain, drafted = pair
    loaded = loaded_model(tiny_engine, plain.request["model"])
    assert explained(loaded, plain, drafted) is None
    with pytest.raises(NotANearTie, match="do not differ"):
        prove_near_tie(loaded, plain, drafted)


def test_a_made_up_difference_is_refused(tiny_engine: Engine, pair: tuple[Run, Run]) -> None:
    plain, drafted = pair
    loaded = loaded_model(tiny_engine, plain.request["model"])
    forged = list(drafted.output)
    forged[30] = (forged[30] + 1) % loaded.model.vocabulary.n_tokens
    with pytest.raises(NotANearTie, match="drafted run chose"):
        explained(loaded, plain, replace(drafted, output=tuple(forged)))


def test_a_memory_that_kept_a_rejected_draft_is_refused(tiny_engine: Engine, pair: tuple[Run, Run]) -> None:
    plain, drafted = pair
    loaded = loaded_model(tiny_engine, plain.request["model"])
    # As if the pass over token 20 had read another token, and the difference had come of that.
    position = len(plain.prompt) + 20
    wrong = [
        tuple(replace(r, token=r.token ^ 1) if r.position == position else r for r in rows) for rows in drafted.passes
    ]
    forged = (*drafted.output[:30], drafted.output[30] ^ 1, *drafted.output[31:])
    with pytest.raises(NotANearTie, match="never computed the row"):
        explained(loaded, plain, replace(drafted, passes=wrong, output=forged))


def test_a_replay_computes_the_very_bits_of_the_run(tiny_engine: Engine, pair: tuple[Run, Run]) -> None:
    plain, _ = pair
    loaded = loaded_model(tiny_engine, plain.request["model"])
    prefix = [*plain.prompt, *plain.output[:40]]
    first, second = replay(loaded, plain.passes, prefix), replay(loaded, plain.passes, prefix)
    assert np.array_equal(first, second)
    assert int(np.argmax(first)) == plain.output[40]
