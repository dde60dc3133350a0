"""The semantics of the sampler in plain NumPy, slow and obvious, and the statistics the tests need. No tests here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from atelico._native import Sampler, gumbel

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Words = NDArray[np.int32]

FLOAT_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Case:
    """Options and history of one request."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: dict[int, float] = field(default_factory=dict)
    seed: int = 0
    prompt: tuple[int, ...] = ()
    output: tuple[int, ...] = ()

    def sampler(self, n_vocab: int) -> Sampler:
        sampler = Sampler(
            n_vocab,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            logit_bias=self.logit_bias or None,
            seed=self.seed,
        )
        sampler.prime(list(self.prompt))
        for token in self.output:
            sampler.accept(token)
        return sampler


@dataclass(frozen=True)
class Expected:
    token: int
    margin: float


def mask_bits(mask: Words, n_vocab: int) -> NDArray[np.bool_]:
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return bits[:n_vocab].astype(bool)


def cleaned(row: Floats) -> Doubles:
    logits = row.astype(np.float64)
    logits[np.isnan(logits)] = -np.inf
    return np.minimum(logits, FLOAT_MAX)


def adjusted(row: Floats, mask: Words | None, case: Case) -> Doubles:
    """Logits after mask, bias and penalties; -inf is impossible."""
    logits = cleaned(row)
    history = set(case.prompt) | set(case.output)
    for token in history | set(case.logit_bias):
        value = logits[token] + case.logit_bias.get(token, 0.0)
        if value == -np.inf:
            logits[token] = value
            continue
        if token in history:
            value = value / case.repetition_penalty if value > 0 else value * case.repetition_penalty
        count = case.output.count(token)
        if count:
            value -= case.frequency_penalty * count + case.presence_penalty
        logits[token] = np.float32(np.clip(value, -FLOAT_MAX, FLOAT_MAX))
    if mask is not None:
        logits[~mask_bits(mask, len(row))] = -np.inf
    return logits


def kept(logits: Doubles, case: Case) -> NDArray[np.bool_]:
    """Which tokens survive top_k, top_p and min_p."""
    order = np.lexsort((np.arange(len(logits)), -logits))
    order = order[logits[order] > -np.inf]
    best = logits[order[0]]
    if case.top_k > 0:
        order = order[: case.top_k]
    if case.top_p < 1:
        cumulated = np.cumsum(np.exp((logits[order] - best) / case.temperature))
        order = order[: np.searchsorted(cumulated, case.top_p * cumulated[-1]) + 1]
    if case.min_p > 0:
        order = order[logits[order] >= best + case.temperature * math.log(case.min_p)]
    survives = np.zeros(len(logits), bool)
    survives[order] = True
    return survives


def probabilities(row: Floats, mask: Words | None, case: Case) -> Doubles:
    """The distribution that a draw follows."""
    logits = adjusted(row, mask, case)
    survives = kept(logits, case)
    weights = np.where(survives, np.exp((logits - logits[survives].max()) / case.temperature), 0.0)
    share: Doubles = weights / weights.sum()
    return share


def sampled(row: Floats, mask: Words | None, case: Case, position: int) -> Expected:
    """The token a sampler must choose. Raises LookupError when none is possible."""
    scores = adjusted(row, mask, case)
    if not (scores > -np.inf).any():
        raise LookupError
    if case.temperature > 0:
        survives = kept(scores, case)
        noise = np.array(gumbel(case.seed, position, range(len(row))))
        scores = np.where(survives, scores + case.temperature * noise, -np.inf)
    token = int(np.argmax(scores))
    rest = np.delete(scores, token)
    return Expected(token, float(scores[token] - rest.max()) if (rest > -np.inf).any() else math.inf)


def acceptable(row: Floats, mask: Words | None, case: Case, position: int) -> list[Expected]:
    """The same, with what rounding may do to top_p: where a sum of probabilities all but touches it, both cuts do."""
    shares = {max(0.0, min(1.0, case.top_p + slack)) if case.top_p < 1 else 1.0 for slack in (-3e-6, 0.0, 3e-6)}
    return [sampled(row, mask, replace(case, top_p=share), position) for share in sorted(shares)]


def log_softmax(row: Floats) -> Doubles:
    logits = cleaned(row)
    shifted = logits - logits.max()
    logprobs: Doubles = np.maximum(shifted - np.log(np.exp(shifted).sum()), -9999.0)
    return logprobs


def realistic_row(n_vocab: int, rng: np.random.Generator) -> Floats:
    """Logits shaped like a language model's: a wide body, a few plausible tokens, one or two likely ones."""
    row = rng.normal(0.0, 2.0, n_vocab)
    row[rng.integers(0, n_vocab, 40)] += rng.uniform(4.0, 12.0, 40)
    return row.astype(np.float32)


def chi_square_p(observed: Doubles, expected: Doubles) -> float:
    """p-value of a chi-square test, cells with fewer than 5 expected pooled (Wilson and Hilferty's approximation)."""
    small = expected < 5
    if small.any():
        observed = np.append(observed[~small], observed[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    impossible = expected == 0
    if observed[impossible].any():
        return 0.0
    observed, expected = observed[~impossible], expected[~impossible]
    statistic = float(((observed - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    spread = 2 / (9 * freedom)
    return 1 - NormalDist().cdf(((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))


def independence_p(first: NDArray[np.int64], second: NDArray[np.int64], n_cells: int) -> float:
    """p-value of the chi-square test that two columns of cell numbers are independent of each other."""
    table = np.zeros((n_cells, n_cells))
    np.add.at(table, (first, second), 1)
    expected = np.outer(table.sum(1), table.sum(0)) / table.sum()
    statistic = float(((table - expected) ** 2 / expected).sum())
    freedom = (n_cells - 1) ** 2
    spread = 2 / (9 * freedom)
    return 1 - NormalDist().cdf(((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))
