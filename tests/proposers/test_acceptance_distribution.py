"""Whoever drafts, and by whichever rule drafts are accepted: the tokens that come follow the model's distribution.

20,000 tokens in the engine's own rounds over toy models, whose distribution is known. Rules that are a little wrong are
caught by the same test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from atelico._native import Sampler
from atelico.decoding import round as rounds
from atelico.speculation import acceptance
from atelico.speculation.acceptance import draw
from atelico.speculation.compose import compose
from atelico.speculation.draft import Distribution, Draft, Drafter, Proposer
from atelico.speculation.draft_model import DraftModel, ModelDrafter
from atelico.speculation.governor import Governor, GovernorLimits
from atelico.speculation.mtp import Head, HeadDrafter
from atelico.speculation.pick import Pick, as_sampled_by, drawn_with
from atelico.speculation.registry import Memories, build
from support.g_test import g_test_p
from support.toy_rounds import Table, ToyContext, ToyHead, ToyLane, ToyMatcher, generate, transitions

N_LANES, N_TOKENS = 40, 500
P_MIN = 0.001
N_VOCAB = 7
RNG = np.random.default_rng(5)
TARGET: Table = RNG.normal(0, 1.6, (N_VOCAB, N_VOCAB)).astype(np.float32)
DRAFTER: Table = (TARGET + RNG.normal(0, 1.2, TARGET.shape)).astype(np.float32)
EXPECTED_TEXT = RNG.integers(0, N_VOCAB, N_TOKENS).tolist()
REFUSED = [[(token + 1) % N_VOCAB, (token + 4) % N_VOCAB] for token in range(N_VOCAB)]
OPTIONS: dict[str, Any] = {"temperature": 1.2, "min_p": 0.02, "logit_bias": {3: 0.5}}
PROPOSERS = ["prompt_lookup", "lookahead", "auto", "prediction", "schema memory", "draft_model", "mtp"]
NETWORKS = ["draft_model", "mtp"]


@dataclass
class Outcome:
    """What 20,000 tokens were like.

    Attributes:
        p: of the G-test against the model's distribution.
    """

    p: float
    proposed: int
    accepted: int


def network(kind: str, pick: Pick) -> Drafter:
    if kind == "draft_model":
        model: Any = SimpleNamespace(vocabulary=SimpleNamespace(eog=frozenset()))
        context: Any = ToyContext(DRAFTER)
        return ModelDrafter(DraftModel(model, context, expected_cost=0.25), 1, pick)
    head: Any = ToyHead(DRAFTER)
    return HeadDrafter(Head(head, 1, frozenset()), 1, pick)


def outcome(
    kind: str,
    *,
    stochastic: bool,
    grammar: bool = False,
    governed: bool = False,
    k: int = 3,
    drawn: Callable[[Sampler, int], Pick] = drawn_with,
) -> Outcome:
    """Decode 20,000 tokens with one kind of drafts; `drawn`: how networks draw theirs for the stochastic rule."""
    memories = Memories()
    governor = Governor(GovernorLimits(min_yield=0.0)) if governed else None
    answers: list[list[int]] = []
    proposed = accepted = 0
    for seed in range(N_LANES):
        sampler = Sampler(N_VOCAB, seed=seed, **OPTIONS)
        toy = ToyLane(sampler, stochastic=stochastic, k=k)
        if kind in NETWORKS:
            toy.drafter = network(kind, (drawn if stochastic else as_sampled_by)(sampler, N_VOCAB))
        else:
            toy.proposers = looked_up(kind, memories)
        if grammar:
            toy.matcher = ToyMatcher(REFUSED, last=0)
        tokens, lane = generate(toy, ToyContext(TARGET), N_TOKENS, governor=governor)
        answers.append(tokens)
        proposed += lane.stats.proposed
        accepted += lane.stats.accepted
    return Outcome(fit(answers, grammar=grammar), proposed, accepted)


def looked_up(kind: str, memories: Memories) -> list[Proposer]:
    if kind == "schema memory":
        return build("prediction", memories, 1, schema="a schema")
    return build(kind, memories, 1, prediction=EXPECTED_TEXT if kind == "prediction" else ())


def fit(answers: Sequence[Sequence[int]], *, grammar: bool) -> float:
    """p-value of the transitions in `answers`."""
    observed = transitions(answers)
    expected: dict[tuple[int, int], float] = {}
    for token in range(N_VOCAB):
        n_after = sum(count for (before, _), count in observed.items() if before == token)
        for following, share in enumerate(shares_after(token, grammar=grammar)):
            expected[token, following] = n_after * float(share)
    return g_test_p(observed, expected, n_samples=N_VOCAB)


def shares_after(token: int, *, grammar: bool = False, table: Table = TARGET) -> Distribution:
    mask: npt.NDArray[np.int32] | None = ToyMatcher(REFUSED, last=token).masks([])[0] if grammar else None
    shares = np.empty(N_VOCAB)
    Sampler(N_VOCAB, **OPTIONS).probabilities(table[token], mask, out=shares)
    return shares


@pytest.mark.parametrize("stochastic", [False, True], ids=["exact", "stochastic"])
@pytest.mark.parametrize("kind", PROPOSERS)
def test_tokens_follow_the_models_distribution(kind: str, stochastic: bool) -> None:
    found = outcome(kind, stochastic=stochastic)
    assert 0 < found.accepted < found.proposed
    assert found.proposed > 2000
    assert found.p > P_MIN


@pytest.mark.parametrize("kind", ["prompt_lookup", "draft_model", "mtp"])
def test_so_they_do_under_a_grammar_that_refuses_drafts(kind: str) -> None:
    found = outcome(kind, stochastic=True, grammar=True)
    assert 0 < found.accepted < found.proposed
    assert found.p > P_MIN


@pytest.mark.parametrize("kind", ["prompt_lookup", "draft_model", "mtp"])
def test_so_they_do_where_the_governor_cuts_drafts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "time", SimpleNamespace(perf_counter=lambda: 0.0))  # the same decisions in every run
    found = outcome(kind, stochastic=True, governed=True, k=5)
    assert 0 < found.accepted < found.proposed
    assert found.p > P_MIN


@pytest.mark.parametrize("kind", NETWORKS)
def test_drawn_drafts_are_accepted_as_often_as_the_distributions_overlap(kind: str) -> None:
    found = outcome(kind, stochastic=True, k=1)
    after = np.array([shares_after(token) for token in range(N_VOCAB)])
    overlaps = np.minimum(after, [shares_after(token, table=DRAFTER) for token in range(N_VOCAB)]).sum(1)
    stationary = np.linalg.matrix_power(after, 200)[0]
    assert found.accepted / found.proposed == pytest.approx(float(stationary @ overlaps), abs=0.03)
    if kind == "mtp":  # a draft model of the exact rule keeps likeliest tokens to itself that it is not sure of
        assert outcome(kind, stochastic=False, k=1).accepted < found.accepted


# --- rules that are wrong -----------------------------------------------------------------------------------------


def always_accepting(_p: Distribution, token: int, _q: Distribution | None, _accept: float, _redraw: float) -> int:
    return token


def not_subtracting(p: Distribution, token: int, q: Distribution | None, accept: float, redraw: float) -> int:
    return token if accept * (1.0 if q is None else q[token]) < p[token] else draw(p, redraw)


def reusing_the_number(p: Distribution, token: int, q: Distribution | None, accept: float, _redraw: float) -> int:
    return acceptance_rule(p, token, q, accept, accept)


acceptance_rule = acceptance.accepted_or_redrawn
WRONG: dict[str, tuple[str, Callable[..., int]]] = {
    "always accepting a lookup": ("prompt_lookup", always_accepting),
    "always accepting a draw": ("draft_model", always_accepting),
    "not subtracting a lookup": ("prompt_lookup", not_subtracting),
    "not subtracting a draw": ("draft_model", not_subtracting),
    "one number for both decisions": ("prompt_lookup", reusing_the_number),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_rule_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, rule = WRONG[wrong]
    monkeypatch.setattr(acceptance, "accepted_or_redrawn", rule)
    assert outcome(kind, stochastic=True).p < P_MIN


def test_cutting_a_draw_for_what_it_is_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def cutting(*arguments: Any) -> Draft:
        draft = compose(*arguments)
        return draft.head(arguments[1].legal_prefix(draft.tokens))

    monkeypatch.setattr(rounds, "compose", cutting)
    assert outcome("draft_model", stochastic=True, grammar=True).p < P_MIN


def test_drafting_the_likeliest_token_as_if_it_were_drawn_is_caught() -> None:
    def likeliest(sampler: Sampler, n_vocab: int) -> Pick:
        pick = drawn_with(sampler, n_vocab)
        return lambda row, position: pick(row, position)._replace(token=int(np.argmax(row)))

    assert outcome("draft_model", stochastic=True, drawn=likeliest).p < P_MIN
