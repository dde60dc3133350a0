"""The sampler against the NumPy reference: every option, odd sizes, odd values, large vocabularies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sampling_reference import (
    Case,
    Expected,
    Floats,
    Words,
    acceptable,
    adjusted,
    cleaned,
    kept,
    log_softmax,
    probabilities,
    realistic_row,
)

from atelico._native import Sampled, Sampler, gumbel


def assert_one_of(found: Sampled, expected: Sequence[Expected], scale: float = 1.0) -> None:
    """The token is one of the acceptable ones; a different one is forgiven only where the reference saw a dead heat."""
    right = [one for one in expected if one.token == found.token]
    if not right:
        assert min(one.margin for one in expected) <= 1e-9 * scale, (found, expected)
    else:
        assert any(found.margin == pytest.approx(one.margin, rel=1e-9, abs=1e-8 * scale) for one in right)


def row_of_kind(kind: str, n_vocab: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if kind == "smooth":
        return rng.normal(0, 3, n_vocab)
    if kind == "whole numbers":  # many ties
        return rng.integers(-3, 4, n_vocab).astype(np.float64)
    if kind == "constant":
        return np.full(n_vocab, rng.normal())
    if kind == "peaked":
        return np.where(rng.random(n_vocab) < 0.1, 15.0, -10.0) + rng.normal(0, 1, n_vocab)
    return 7 + rng.normal(0, 1e-5, n_vocab)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Floats, Words | None, Case, int]:
    n_vocab = draw(st.one_of(st.just(1), st.integers(2, 40), st.sampled_from([63, 64, 65, 127, 128, 129, 300])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["smooth", "whole numbers", "constant", "peaked", "near ties"]))
    row = row_of_kind(kind, n_vocab, rng).astype(np.float32)
    for special in draw(st.lists(st.sampled_from([np.nan, -np.inf, np.inf, 3e38, -3e38, 0.0, -0.0]), max_size=3)):
        row[rng.random(n_vocab) < 0.2] = special
    mask = None
    if draw(st.booleans()):
        density = draw(st.sampled_from([0.05, 0.5, 0.95, 1.0]))
        bits = rng.random(32 * math.ceil(n_vocab / 32)) < density  # bits past the vocabulary are noise, as they may be
        mask = np.packbits(bits, bitorder="little").view(np.int32)
    tokens = st.lists(st.integers(0, n_vocab - 1), max_size=8).map(tuple)
    case = Case(
        temperature=draw(st.sampled_from([0.0, 0.0, 1e-6, 0.3, 0.8, 1.0, 2.5, 100.0])),
        top_k=draw(st.sampled_from([-1, 0, 0, 1, 2, 5, 40, 1000])),
        top_p=draw(st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.95, 1.0, 1.0, 1.0])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.05, 0.5, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.3, 0.7])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.5, -0.5])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.7, -1.0])),
        logit_bias=draw(st.dictionaries(st.integers(0, n_vocab - 1), st.sampled_from([-100.0, -1.5, 3.0, -np.inf]))),
        seed=draw(st.integers(-(2**63), 2**64 - 1)),
        prompt=draw(tokens),
        output=draw(tokens),
    )
    return row, mask, case, draw(st.integers(0, 2**63 - 1))


@settings(max_examples=600, deadline=None)
@given(cases())
def test_every_option_together_agrees_with_the_reference(example: tuple[Floats, Words | None, Case, int]) -> None:
    row, mask, case, position = example
    sampler = case.sampler(len(row))
    try:
        expected = acceptable(row, mask, case, position)
    except LookupError:
        with pytest.raises(ValueError, match="no token"):
            sampler.sample(row, mask, position=position)
        return
    possible = adjusted(row, mask, case)
    scale = max(1.0, float(np.abs(possible[possible > -np.inf]).max()) * 1e-6, case.temperature)
    assert_one_of(sampler.sample(row, mask, position=position), expected, scale)


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 12))
def test_logprobs_are_those_of_the_raw_row(example: tuple[Floats, Words | None, Case, int], n: int) -> None:
    row, mask, case, position = example
    if not (adjusted(row, mask, case) > -np.inf).any():
        return
    found = case.sampler(len(row)).sample(row, mask, position=position, n_logprobs=n)
    reference = log_softmax(row)
    assert found.logprob == pytest.approx(reference[found.token], rel=1e-6, abs=2e-6)
    logits = cleaned(row)
    order = np.lexsort((np.arange(len(row)), -logits))
    best = order[logits[order] > -np.inf][:n]
    assert [token for token, _ in found.top] == best.tolist()
    assert [logprob for _, logprob in found.top] == pytest.approx(reference[best].tolist(), rel=1e-6, abs=2e-6)


def assert_distribution_of(sampler: Sampler, row: Floats, mask: Words | None, case: Case) -> None:
    """`sampler` tells the reference's distribution, with either cut where top_p all but touches one."""
    found = np.full(len(row), np.nan)
    sampler.probabilities(row, mask, out=found)
    assert found.sum() == pytest.approx(1.0, abs=1e-9)
    shares = {max(0.0, min(1.0, case.top_p + slack)) if case.top_p < 1 else 1.0 for slack in (-3e-6, 0.0, 3e-6)}
    wanted = [probabilities(row, mask, replace(case, top_p=share)) for share in sorted(shares)]
    assert any(np.allclose(found, one, rtol=2e-5, atol=1e-9) for one in wanted), (found, wanted)


@settings(max_examples=600, deadline=None)
@given(cases())
def test_probabilities_are_those_of_the_reference(example: tuple[Floats, Words | None, Case, int]) -> None:
    row, mask, case, position = example
    sampler = case.sampler(len(row))
    if not (adjusted(row, mask, case) > -np.inf).any():
        with pytest.raises(ValueError, match="no token"):
            sampler.probabilities(row, mask, out=np.empty(len(row)))
        return
    if case.temperature in (0.0, 1e-6):  # with 1e-6, float32 cannot tell how much less likely a close second is
        found = np.empty(len(row))
        sampler.probabilities(row, mask, out=found)
        assert found[sampler.sample(row, mask, position=position).token] > 0
        assert found.sum() == pytest.approx(1.0, abs=1e-9)
        return
    assert_distribution_of(sampler, row, mask, case)


def test_at_temperature_0_the_best_token_has_all_probability() -> None:
    found = np.empty(200)
    Sampler(200, temperature=0.0).probabilities(np.arange(200, dtype=np.float32) % 150, out=found)
    assert found.tolist() == [float(token == 149) for token in range(200)]


LARGE = [49_152, 151_936, 262_144]


@pytest.mark.parametrize("n_vocab", LARGE)
@pytest.mark.parametrize(
    "case",
    [
        Case(temperature=0.0),
        Case(temperature=0.8, seed=1),
        Case(temperature=0.8, seed=2, top_k=40, top_p=0.95, min_p=0.05),
        Case(temperature=0.8, seed=3, top_p=0.5),
        Case(temperature=1.5, seed=4, top_p=0.9),  # tens of thousands of tokens survive
        Case(temperature=1.0, seed=5, top_k=20_000),
        Case(temperature=0.7, seed=6, min_p=0.02, repetition_penalty=1.1, frequency_penalty=0.2, presence_penalty=0.1),
    ],
    ids=lambda case: f"T={case.temperature} k={case.top_k} p={case.top_p} min_p={case.min_p}",
)
def test_large_vocabularies_agree_with_the_reference(n_vocab: int, case: Case) -> None:
    rng = np.random.default_rng(n_vocab)
    row = realistic_row(n_vocab, rng)
    mask = rng.integers(-(2**31), 2**31, math.ceil(n_vocab / 32)).astype(np.int32)
    likely = np.argsort(-row)[:200]
    history = tuple(int(token) for token in likely[::3])
    case = replace(case, output=history, logit_bias={int(likely[0]): -2.0, int(likely[1]): 1.0})
    sampler = case.sampler(n_vocab)
    for position, allowed in enumerate([None, mask]):
        found = sampler.sample(row, allowed, position=position, n_logprobs=20)
        assert_one_of(found, acceptable(row, allowed, case, position))
        if case.temperature > 0:
            assert_distribution_of(sampler, row, allowed, case)
        reference = log_softmax(row)
        assert found.logprob == pytest.approx(reference[found.token], abs=2e-6)
        assert [token for token, _ in found.top] == likely[:20].tolist()
        assert [logprob for _, logprob in found.top] == pytest.approx(reference[likely[:20]].tolist(), abs=2e-6)


def test_a_flat_row_of_a_large_vocabulary_keeps_exactly_its_share_of_tokens() -> None:
    row = np.zeros(49_152, np.float32)
    sampler = Sampler(len(row), top_p=0.25)
    tokens = [sampler.sample(row, position=position).token for position in range(1_000)]
    assert max(tokens) < 12_289  # equal probabilities: the lowest ids are the best
    assert max(tokens) > 11_500


def test_top_p_over_a_slope_finds_the_same_cut_as_sorting() -> None:
    row = np.random.default_rng(3).uniform(-9, 9, 20_000).astype(np.float32)
    for temperature in (0.5, 2.0, 6.0):
        for top_p in (0.3, 0.9, 0.999):
            case = Case(temperature=temperature, top_p=top_p)
            survivors = set(np.flatnonzero(kept(row.astype(np.float64), case)).tolist())
            sampler = case.sampler(len(row))
            tokens = {sampler.sample(row, position=position).token for position in range(300)}
            assert tokens <= survivors


def test_the_lowest_id_wins_an_exact_tie_in_greedy() -> None:
    row = np.zeros(200, np.float32)
    row[[40, 41, 150]] = 5.0
    found = Sampler(200, temperature=0.0).sample(row, position=0)
    assert (found.token, found.margin) == (40, 0.0)
    row[[3, 199]] = [0.0, 5.0]
    assert Sampler(200, temperature=0.0, logit_bias={40: -0.5}).sample(row, position=0).token == 41


def test_top_k_breaks_ties_by_the_lowest_id() -> None:
    row = np.zeros(300, np.float32)
    sampler = Sampler(300, top_k=3)
    assert {sampler.sample(row, position=position).token for position in range(200)} == {0, 1, 2}


def test_margin_is_infinite_without_a_runner_up() -> None:
    row = np.array([1.0, -np.inf, np.nan], np.float32)
    assert Sampler(3, temperature=0.0).sample(row, position=0).margin == math.inf
    assert Sampler(3).sample(row, position=0).margin == math.inf
    assert Sampler(3, top_k=1).sample(np.ones(3, np.float32), position=0).margin == math.inf


def test_margin_of_greedy_is_the_gap_after_bias_and_penalties() -> None:
    row = np.array([3.0, 2.0, 1.0], np.float32)
    sampler = Sampler(3, temperature=0.0, logit_bias={2: 1.5}, presence_penalty=1.25)
    sampler.accept(0)
    found = sampler.sample(row, position=0)
    assert (found.token, found.margin) == (2, 0.5)


def test_margin_of_a_draw_tells_how_far_a_row_may_move() -> None:
    rng = np.random.default_rng(1)
    row = rng.normal(0, 2, 500).astype(np.float32)
    for temperature in (0.5, 1.0, 2.0):
        sampler = Sampler(500, temperature=temperature, seed=9)
        for position in range(100):
            found = sampler.sample(row, position=position)
            moved = row.copy()
            moved[found.token] -= found.margin * 0.999
            assert sampler.sample(moved, position=position).token == found.token
            moved[found.token] = row[found.token] - found.margin * 1.001
            assert sampler.sample(moved, position=position).token != found.token


def test_prompt_tokens_count_for_the_repetition_penalty_only() -> None:
    row = np.array([2.0, 1.9], np.float32)
    others = Sampler(2, temperature=0.0, frequency_penalty=1.0, presence_penalty=1.0)
    others.prime([0, 0])
    assert others.sample(row, position=0).token == 0
    repetition = Sampler(2, temperature=0.0, repetition_penalty=1.5)
    repetition.prime([0, 0])
    assert repetition.sample(row, position=0).token == 1


def test_frequency_grows_with_each_occurrence_and_presence_and_repetition_do_not() -> None:
    row = np.array([4.0, 0.0], np.float32)
    gaps: dict[str, list[float]] = {"frequency_penalty": [], "presence_penalty": [], "repetition_penalty": []}
    for name, margins in gaps.items():
        sampler = Case(temperature=0.0, **{name: 1.25}).sampler(2)  # type: ignore[arg-type]
        for _ in range(3):
            sampler.accept(0)
            margins.append(sampler.sample(row, position=0).margin)
    assert gaps["frequency_penalty"] == [2.75, 1.5, 0.25]
    assert gaps["presence_penalty"] == [2.75] * 3
    assert gaps["repetition_penalty"] == pytest.approx([3.2] * 3)


def test_repetition_penalty_makes_a_negative_logit_more_negative() -> None:
    row = np.array([-1.0, -1.5], np.float32)
    sampler = Sampler(2, temperature=0.0, repetition_penalty=2.0)
    sampler.prime([0])
    found = sampler.sample(row, position=0)
    assert (found.token, found.margin) == (1, 0.5)


def test_sampling_changes_nothing() -> None:
    row = np.random.default_rng(2).normal(0, 1, 1000).astype(np.float32)
    before = row.copy()
    sampler = Sampler(1000, temperature=1.0, repetition_penalty=1.2, logit_bias={5: 2.0}, seed=3)
    sampler.accept(7)
    first = [sampler.sample(row, position=position).token for position in range(50)]
    again = [sampler.sample(row, position=position).token for position in reversed(range(50))]
    assert first == again[::-1]
    assert np.array_equal(row, before)


def test_negative_seed_is_taken_modulo_two_to_the_sixty_four() -> None:
    assert gumbel(-1, 5, [0, 1, 99]) == gumbel(2**64 - 1, 5, [0, 1, 99])
    assert gumbel(-1, 5, [0, 1, 99]) != gumbel(1, 5, [0, 1, 99])


def test_noise_of_a_token_does_not_depend_on_which_others_are_asked_for() -> None:
    together = gumbel(4, 7, range(1000))
    assert [gumbel(4, 7, [token])[0] for token in range(1000)] == together
    assert all(math.isfinite(noise) for noise in together)
