"""The governor: drafts are verified where they pay, and only there."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atelico.speculation.draft import Draft
from atelico.speculation.governor import Governor, GovernorLimits, RequestGovernor
from atelico.speculation.pass_cost import CostCurve, DraftRows

LIMITS = GovernorLimits()


def settled(limits: GovernorLimits = LIMITS) -> Governor:
    """A governor that knows what a plain pass costs, for any number of lanes up to four."""
    governor = Governor(limits)
    for lanes in range(1, 5):
        for _ in range(3):
            governor.observe_pass(lanes, DraftRows(), 1.0)
    return governor


def draft_of(length: int, source: str = "prompt", match: int = 3) -> Draft:
    draft = Draft()
    draft.extend(list(range(1, length + 1)), source, match)
    return draft


@dataclass
class Machine:
    """A simulated model: a row beyond the first costs `row_cost` of a plain pass; draft tokens are right by chance."""

    row_cost: float
    acceptance: float
    noise: float = 0.05
    n_lanes: int = 1

    def run(self, governor: Governor, request: RequestGovernor, n_tokens: int, seed: int, k: int = 5) -> float:
        """Time to make `n_tokens`, in plain passes, with a draft of `k` tokens on offer in every round."""
        chance = random.Random(seed)
        elapsed, made = 0.0, 0
        while made < n_tokens:
            draft = draft_of(k)
            length = governor.choose(request, draft, self.n_lanes)
            right = 0
            while right < k and chance.random() < self.acceptance:
                right += 1
            seconds = (1.0 + self.row_cost * length) * (1.0 + chance.uniform(-self.noise, self.noise))
            governor.observe_pass(self.n_lanes, DraftRows(length), seconds)
            n_new = min(right, length) + 1
            truth = [*draft.tokens[:right], 999][:n_new]
            governor.observe_draft(request, draft, truth, length)
            elapsed += seconds
            made += n_new
        return elapsed / made


@settings(max_examples=60, deadline=None)
@given(
    row_cost=st.floats(0.02, 1.2),
    acceptance=st.floats(0.0, 1.0),
    seed=st.integers(0, 1000),
    k=st.integers(1, 8),
)
def test_speculation_never_loses_more_than_its_exploration(
    row_cost: float, acceptance: float, seed: int, k: int
) -> None:
    governor = Governor(LIMITS)
    machine = Machine(row_cost, acceptance)
    per_token = machine.run(governor, governor.begin("prompt_lookup"), 1500, seed, k)
    assert per_token <= 1.05


@pytest.mark.parametrize(("row_cost", "acceptance", "least"), [(0.1, 0.9, 2.5), (0.3, 0.9, 1.6), (0.3, 0.75, 1.3)])
def test_good_drafts_on_a_good_machine_are_used(row_cost: float, acceptance: float, least: float) -> None:
    governor = Governor(LIMITS)
    per_token = Machine(row_cost, acceptance).run(governor, governor.begin("prompt_lookup"), 1500, seed=1)
    assert 1.0 / per_token > least


def test_a_costly_row_turns_drafting_off() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    Machine(row_cost=1.5, acceptance=0.8).run(governor, request, 600, seed=3)
    assert governor.choose(request, draft_of(5), 1) == 0
    assert request.declined > 300


def test_a_draft_that_is_always_right_is_verified_whole_when_rows_are_cheap() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    Machine(row_cost=0.05, acceptance=1.0).run(governor, request, 600, seed=4)
    assert governor.choose(request, draft_of(5), 1) == 5


def test_acceptance_is_learned_while_nothing_is_drafted() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    for _ in range(40):
        governor.observe_draft(request, draft_of(5), [1], n_verified=0)
    assert governor.state().acceptance == {"prompt": 1.0}
    assert request.rounds == 0


def test_only_the_first_token_beyond_the_cut_is_judged() -> None:
    governor = Governor(LIMITS)
    draft = Draft([1, 2, 3], ["prompt", "pool", "schema"], [3, 3, 3])
    governor.observe_draft(governor.begin("prompt_lookup"), draft, [1, 2, 3], n_verified=1)
    assert set(governor.state().acceptance) == {"prompt", "pool"}


def test_sources_and_match_lengths_are_told_apart() -> None:
    governor = settled()
    request = governor.begin("auto")
    for _ in range(30):
        governor.observe_draft(request, draft_of(1, "prompt", 3), [1], 0)
        governor.observe_draft(request, draft_of(1, "pool", 2), [7], 0)
    assert governor.choose(request, draft_of(3, "prompt", 3), 1) > 0
    assert governor.choose(request, draft_of(3, "pool", 2), 1) == 0


def test_a_request_below_the_yield_floor_rests() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    for _ in range(LIMITS.yield_rounds):
        assert request.resting is None
        governor.observe_draft(request, draft_of(2), [99], n_verified=2)
    assert request.resting == "fewer than 0.75 accepted tokens per round"
    assert governor.choose(request, draft_of(5), 1) == 0


def fail(governor: Governor) -> None:
    request = governor.begin("prompt_lookup")
    assert request.resting is None
    for _ in range(LIMITS.yield_rounds):
        governor.observe_draft(request, draft_of(2), [99], n_verified=2)
    governor.end(request)


def resting_requests(governor: Governor) -> int:
    count = 0
    while True:
        request = governor.begin("prompt_lookup")
        if request.resting is None:
            return count
        assert "probed again" in request.resting
        count += 1


def test_two_failing_requests_abandon_a_proposer_for_pauses_that_double() -> None:
    governor = Governor(LIMITS)
    fail(governor)
    assert resting_requests(governor) == 0
    fail(governor)
    pauses = []
    for _ in range(7):
        pauses.append(resting_requests(governor))
        fail(governor)
    assert pauses == [32, 64, 128, 256, 512, 1024, 1024]


def test_one_good_request_forgives() -> None:
    governor = Governor(LIMITS)
    fail(governor)
    good = governor.begin("prompt_lookup")
    for _ in range(LIMITS.yield_rounds):
        governor.observe_draft(good, draft_of(2), [1, 2, 3], n_verified=2)
    governor.end(good)
    fail(governor)
    assert resting_requests(governor) == 0


def test_a_cap_on_lanes_turns_drafting_off_above_it() -> None:
    governor = settled(GovernorLimits(max_lanes=2))
    request = governor.begin("prompt_lookup")
    lengths = [governor.choose(request, draft_of(5, "grammar"), lanes) for lanes in (1, 2, 3, 4)]
    assert lengths[0] > 0 and lengths[1] > 0
    assert lengths[2:] == [0, 0]


def test_declined_drafts_are_probed_ever_more_rarely() -> None:
    governor = settled()
    request = governor.begin("prompt_lookup")
    for _ in range(50):
        governor.observe_draft(request, draft_of(1), [99], 0)
    probes = [i for i in range(1, 400) if governor.choose(request, draft_of(5), 1) > 0]
    assert probes == [32, 96, 224]


def test_nothing_is_drafted_before_a_plain_pass_was_measured() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    lengths = []
    for _ in range(200):
        lengths.append(governor.choose(request, draft_of(5, "grammar"), 1))
        governor.observe_pass(1, DraftRows(lengths[-1]), 1.0 + 0.1 * lengths[-1])
    assert lengths[:7] == [0, 0, 0, 1, 2, 4, 5]
    assert [i for i, length in enumerate(lengths) if length == 0] == [0, 1, 2, 67, 132, 197]


def test_dear_rows_are_found_out_by_short_drafts() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    lengths = []
    for _ in range(30):
        lengths.append(governor.choose(request, draft_of(8, "grammar"), 1))
        governor.observe_pass(1, DraftRows(lengths[-1]), 1.0 + 1.5 * lengths[-1])
    assert lengths[:4] == [0, 0, 0, 1]
    assert sum(lengths) <= 4, lengths


def test_nothing_is_guessed_while_not_even_right_drafts_would_pay() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    asked = []
    for i in range(400):
        may_pay = governor.may_pay(request, 5, 1)
        if may_pay:
            asked.append(i)
        length = governor.choose(request, draft_of(5, "prompt", 8), 1) if may_pay else 0
        governor.observe_pass(1, DraftRows(length), 1.0 + 1.5 * length)
    assert len(asked) < 30, asked
    assert max(asked) > 60, "it never looked again"


def test_kernels_that_are_slow_for_a_few_rows_and_fast_for_many_are_found() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    lengths = []
    for _ in range(1200):
        length = 0
        if governor.may_pay(request, 16, 1):
            length = governor.choose(request, draft_of(16, "prompt", 8), 1)
            governor.observe_draft(request, draft_of(16, "prompt", 8), list(range(1, 18)), length)
        lengths.append(length)
        governor.observe_pass(1, DraftRows(length), 1.0 if length == 0 else 3.0 + 0.1 * length)
    assert lengths[-100:].count(16) > 80, lengths


def test_rows_without_logits_are_judged_by_their_own_cost() -> None:
    governor = Governor(LIMITS)
    request = governor.begin("prompt_lookup")
    drafts = {True: draft_of(4, "grammar"), False: draft_of(4, "prompt", 8)}
    chosen: dict[bool, list[int]] = {True: [], False: []}
    for i in range(120):
        forced = i % 2 == 0
        length = governor.choose(request, drafts[forced], 1, blind=True)
        chosen[forced].append(length)
        rows = DraftRows(blind=length) if forced else DraftRows(full=length)
        governor.observe_pass(1, rows, 1.0 + 0.2 * rows.blind + 1.8 * rows.full)
    assert chosen[True][10:].count(4) > 40
    assert sum(chosen[False]) <= 4


def test_the_cost_curve_learns_and_fills_gaps() -> None:
    curve = CostCurve()
    for _ in range(60):
        curve.observe(DraftRows(), 10.0)
        curve.observe(DraftRows(2), 16.0)
        curve.observe(DraftRows(4), 30.0)
    assert curve.ratio(DraftRows()) == 1.0
    assert curve.ratio(DraftRows(2)) == pytest.approx(1.6, rel=0.05)
    assert curve.ratio(DraftRows(3)) == pytest.approx((curve.ratio(DraftRows(2)) + curve.ratio(DraftRows(4))) / 2)
    assert curve.ratio(DraftRows(6)) > curve.ratio(DraftRows(4))


def test_one_pass_disturbed_by_another_process_is_no_evidence() -> None:
    curve = CostCurve()
    for _ in range(30):
        curve.observe(DraftRows(), 10.0)
        curve.observe(DraftRows(2), 13.0)
    before = curve.ratio(DraftRows(2))
    curve.observe(DraftRows(2), 200.0)
    assert curve.ratio(DraftRows(2)) == before
