"""Draws follow the distribution they claim, and the noise behind them is independent in every direction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sampling_reference import Case, Floats, chi_square_p, independence_p, probabilities, realistic_row

from atelico._native import Sampler, gumbel

N_DRAWS = 20_000
P_MIN = 0.001


def row_of(n_vocab: int) -> Floats:
    row = np.random.default_rng(n_vocab).normal(0, 1.5, n_vocab)
    return row.astype(np.float32)


CASES = {
    "plain": Case(),
    "cool": Case(temperature=0.6),
    "hot": Case(temperature=3.0),
    "top_k": Case(top_k=6),
    "top_p": Case(top_p=0.8),
    "min_p": Case(min_p=0.1),
    "all": Case(temperature=0.8, top_k=9, top_p=0.95, min_p=0.02),
    "penalties": Case(repetition_penalty=1.4, presence_penalty=0.5, prompt=(0, 2), output=(1, 1)),
}


def counts(tokens: list[int], n_vocab: int) -> NDArray[np.float64]:
    return np.bincount(tokens, minlength=n_vocab).astype(np.float64)


def fit(draw: Callable[[int], int], row: Floats, case: Case) -> float:
    """p-value of the draws number 0 to N_DRAWS against the distribution of a case."""
    observed = counts([draw(number) for number in range(N_DRAWS)], len(row))
    return chi_square_p(observed, N_DRAWS * probabilities(row, None, case))


@pytest.mark.parametrize("n_vocab", [12, 200])
@pytest.mark.parametrize("name", CASES)
def test_draws_over_positions_follow_the_distribution(name: str, n_vocab: int) -> None:
    row, case = row_of(n_vocab), CASES[name]
    sampler = case.sampler(n_vocab)
    assert fit(lambda number: sampler.sample(row, position=number).token, row, case) > P_MIN


@pytest.mark.parametrize("n_vocab", [12, 200])
@pytest.mark.parametrize("name", ["plain", "all"])
def test_draws_over_seeds_follow_the_distribution(name: str, n_vocab: int) -> None:
    row, case = row_of(n_vocab), CASES[name]

    def draw(number: int) -> int:
        sampler = Sampler(
            n_vocab, temperature=case.temperature, top_k=case.top_k, top_p=case.top_p, min_p=case.min_p, seed=number
        )
        return sampler.sample(row, position=17).token

    assert fit(draw, row, case) > P_MIN


def test_draws_from_a_large_vocabulary_follow_the_distribution() -> None:
    row = realistic_row(49_152, np.random.default_rng(8))
    case = Case(temperature=1.2, seed=5)
    sampler = case.sampler(len(row))
    assert fit(lambda number: sampler.sample(row, position=number).token, row, case) > P_MIN


def shared_noise(row: Floats) -> Callable[[int], int]:
    """Wrong: neighbouring tokens share their noise, so of each pair only the likelier is ever drawn."""
    return lambda number: int(np.argmax(row + np.repeat(gumbel(0, number, range(len(row) // 2)), 2)))


def coarse_noise(row: Floats) -> Callable[[int], int]:
    """Wrong: noise from 4-bit numbers."""

    def draw(number: int) -> int:
        uniform = np.exp(-np.exp(-np.array(gumbel(0, number, range(len(row))))))
        return int(np.argmax(row - np.log(-np.log((np.floor(uniform * 16) + 0.5) / 16))))

    return draw


def warm(row: Floats) -> Callable[[int], int]:
    """Wrong: 15 % too warm."""
    sampler = Sampler(len(row), temperature=1.15)
    return lambda number: sampler.sample(row, position=number).token


def off_by_one_top_k(row: Floats) -> Callable[[int], int]:
    """Wrong: the least likely token is cut."""
    sampler = Sampler(len(row), top_k=len(row) - 1)
    return lambda number: sampler.sample(row, position=number).token


@pytest.mark.parametrize("wrong", [shared_noise, coarse_noise, warm, off_by_one_top_k])
def test_the_same_test_catches_a_wrong_sampler(wrong: Callable[[Floats], Callable[[int], int]]) -> None:
    row = row_of(12)
    assert fit(wrong(row), row, Case()) < P_MIN


def uniforms(seed: int, position: int, n: int) -> NDArray[np.float64]:
    uniform: NDArray[np.float64] = np.exp(-np.exp(-np.array(gumbel(seed, position, range(n)))))
    return uniform


def cells(uniform: NDArray[np.float64], n_cells: int) -> NDArray[np.int64]:
    return np.minimum((uniform * n_cells).astype(np.int64), n_cells - 1)


@pytest.fixture(scope="module")
def noise_by_seed() -> NDArray[np.float64]:
    """Uniforms of seeds 1 to 5, positions 0 to 399, tokens 0 to 255."""
    return np.array([[uniforms(seed, position, 256) for position in range(400)] for seed in range(1, 6)])


def flat_p(uniform: NDArray[np.float64], n_cells: int = 100) -> float:
    observed = np.bincount(cells(uniform.ravel(), n_cells), minlength=n_cells).astype(np.float64)
    return chi_square_p(observed, np.full(n_cells, uniform.size / n_cells))


def test_noise_is_gumbel_over_tokens_positions_and_seeds(noise_by_seed: NDArray[np.float64]) -> None:
    assert flat_p(noise_by_seed) > P_MIN
    assert flat_p(uniforms(0, 0, N_DRAWS)) > P_MIN
    for token in (0, 63, 64, 1000):
        assert flat_p(np.exp(-np.exp(-np.array([gumbel(7, p, [token])[0] for p in range(N_DRAWS)])))) > P_MIN
        assert flat_p(np.exp(-np.exp(-np.array([gumbel(s, 7, [token])[0] for s in range(N_DRAWS)])))) > P_MIN
    tops = np.exp(-np.exp(-np.array([max(gumbel(2, p, range(64))) for p in range(5_000)]))) ** 64
    assert flat_p(tops) > P_MIN  # the largest of a block is the largest of 64 independent ones


@pytest.mark.parametrize("lag", [1, 2, 31, 63, 64, 65])
def test_noise_of_different_tokens_is_independent(noise_by_seed: NDArray[np.float64], lag: int) -> None:
    cell = cells(noise_by_seed, 10)
    assert independence_p(cell[..., :-lag].ravel(), cell[..., lag:].ravel(), 10) > P_MIN


@pytest.mark.parametrize("lag", [1, 2, 16])
def test_noise_of_different_positions_is_independent(noise_by_seed: NDArray[np.float64], lag: int) -> None:
    cell = cells(noise_by_seed, 10)
    assert independence_p(cell[:, :-lag].ravel(), cell[:, lag:].ravel(), 10) > P_MIN
    # Also where a seed step could cancel a position step.
    assert independence_p(cell[:-1, lag:].ravel(), cell[1:, :-lag].ravel(), 10) > P_MIN


def test_noise_of_neighbouring_seeds_is_independent(noise_by_seed: NDArray[np.float64]) -> None:
    cell = cells(noise_by_seed, 10)
    for lag in (1, 2, 3, 4):
        assert independence_p(cell[:-lag].ravel(), cell[lag:].ravel(), 10) > P_MIN


def test_draws_at_neighbouring_positions_and_seeds_are_independent() -> None:
    row = np.zeros(8, np.float32)
    tokens = np.array([[Sampler(8, seed=s).sample(row, position=p).token for p in range(2_000)] for s in range(1, 6)])
    assert independence_p(tokens[:, :-1].ravel(), tokens[:, 1:].ravel(), 8) > P_MIN
    assert independence_p(tokens[:-1].ravel(), tokens[1:].ravel(), 8) > P_MIN


def test_uniform_numbers_are_flat_and_independent_of_purpose_position_seed_and_noise() -> None:
    numbers = np.array(
        [[[Sampler(1, seed=s).uniform(p, purpose) for purpose in range(3)] for p in range(2_000)] for s in range(5)]
    )
    assert flat_p(numbers) > P_MIN
    cell = cells(numbers, 10)
    assert independence_p(cell[..., :-1].ravel(), cell[..., 1:].ravel(), 10) > P_MIN
    assert independence_p(cell[:, :-1].ravel(), cell[:, 1:].ravel(), 10) > P_MIN
    assert independence_p(cell[:-1].ravel(), cell[1:].ravel(), 10) > P_MIN
    noise = cells(np.array([[uniforms(s, p, 3) for p in range(2_000)] for s in range(5)]), 10)
    assert independence_p(cell.ravel(), noise.ravel(), 10) > P_MIN
