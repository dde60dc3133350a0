"""The governor: how many draft tokens pay, measured on this machine and this text instead of guessed.

It keeps two measurements. Cost: the time of a pass over n rows, relative to a pass without drafts, per number of lanes;
rows that add no logits to the pass, since the grammar forces what they would decide, are measured apart.
Acceptance: how often a draft token is right, per source, match length and depth, provided the ones before it were. The
draft is cut where expected tokens per time are best; a length of 0 is always a candidate, so speculation that does not
pay turns itself off. A draft's first token beyond the cut is compared with what came anyway, so acceptance is still
learned while nothing is drafted. Drafts grow by doubling until their cost is known: where two rows cost what two passes
do, a first draft of many would lose more than later ones win.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from atelico.speculation.draft import GRAMMAR, Draft, Network
from atelico.speculation.pass_cost import BLIND, COST_RATE, FULL, NONE, OUTLIER, CostCurve, DraftRows

# How often a first draft token is right before anything is known, by source.
_PRIOR_ACCEPTANCE = {
    GRAMMAR: 0.99,
    "prediction": 0.8,
    "schema": 0.7,
    "mtp": 0.7,
    "prompt": 0.6,
    "draft": 0.6,
    "pool": 0.5,
}
_PRIOR_WEIGHT = 4.0
# One request's own counts outweigh the model's after this many trials.
_REQUEST_WEIGHT = 6.0
_FORGET = 0.98
_MAX_MATCH, _MAX_DEPTH = 8, 3
_LONGEST_PROBE = 16

Key = tuple[str, int, int]


@dataclass(frozen=True)
class GovernorLimits:
    """The bounds users know from other engines; see EngineConfig for their meaning."""

    min_yield: float = 0.75
    yield_rounds: int = 24
    min_speedup: float = 1.08
    reprobe: int = 32
    reprobe_max: int = 1024
    max_lanes: int = 0


@dataclass(frozen=True)
class GovernorState:
    """What a governor has learned, for people who watch it.

    Attributes:
        costs: by number of lanes, times of passes relative to one without drafts.
        acceptance: shares of right draft tokens by source; recent ones count more.
        pauses: by proposer, requests that will not draft before it is probed again.
    """

    costs: dict[int, dict[DraftRows, float]] = field(default_factory=dict)
    acceptance: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)


class Acceptance:
    """Decaying counts of right and wrong draft tokens by key."""

    def __init__(self) -> None:
        self._counts: dict[Key, list[float]] = {}

    def observe(self, key: Key, *, right: bool) -> None:
        """One draft token was compared with the truth."""
        counts = self._counts.setdefault(key, [0.0, 0.0])
        counts[0] = counts[0] * _FORGET + right
        counts[1] = counts[1] * _FORGET + 1.0

    def counts(self, key: Key) -> tuple[float, float]:
        """(right, all) so far."""
        right, total = self._counts.get(key, (0.0, 0.0))
        return right, total

    def by_source(self) -> dict[str, float]:
        """Shares of right tokens. Safe to call from another thread."""
        sums: dict[str, list[float]] = {}
        for (source, _, _), (right, total) in list(self._counts.items()):
            of_source = sums.setdefault(source, [0.0, 0.0])
            of_source[0] += right
            of_source[1] += total
        return {source: right / total for source, (right, total) in sorted(sums.items()) if total > 0}


@dataclass
class _Probe:
    """When a length of 0 is doubted again, in declined drafts, and by how long a draft; for one number of lanes."""

    pause: int
    declined: int = 0
    length: int = 2


@dataclass
class _Strategy:
    """The verdicts on one proposer: how often requests failed the yield floor, and the pause that followed."""

    failures: int = 0
    pause: int = 0
    to_skip: int = 0


@dataclass
class RequestGovernor:
    """The governor's view of one lane: its own acceptance and its yield.

    Attributes:
        resting: why this lane stopped drafting, or None.
    """

    proposer: str
    acceptance: Acceptance = field(default_factory=Acceptance)
    rounds: int = 0
    accepted: int = 0
    declined: int = 0
    resting: str | None = None


class Governor:
    """One per model; used by its decode thread only."""

    def __init__(self, limits: GovernorLimits) -> None:
        self._limits = limits
        self._costs: dict[int, CostCurve] = {}
        self._probes: dict[int, _Probe] = {}
        self._draft_probes: dict[int, _Probe] = {}
        self._acceptance = Acceptance()
        self._draft_seconds: dict[str, float] = {}  # per token, by network
        self._strategies: dict[str, _Strategy] = defaultdict(_Strategy)

    # --- requests ---------------------------------------------------------------------------------------------

    def begin(self, proposer: str) -> RequestGovernor:
        """A request starts. While its proposer is abandoned it rests, until the pause is over and it probes again."""
        request = RequestGovernor(proposer)
        strategy = self._strategies[proposer]
        if strategy.to_skip > 0:
            strategy.to_skip -= 1
            request.resting = f"'{proposer}' did not pay lately; probed again in {strategy.to_skip + 1} requests"
        return request

    def end(self, request: RequestGovernor) -> None:
        """A request ended: two in a row that missed the yield floor abandon its proposer for a while."""
        if request.rounds < self._limits.yield_rounds:
            return
        strategy = self._strategies[request.proposer]
        if request.accepted / request.rounds >= self._limits.min_yield:
            strategy.failures, strategy.pause = 0, 0
            return
        strategy.failures += 1
        if strategy.failures >= 2:
            strategy.pause = min(max(2 * strategy.pause, self._limits.reprobe), self._limits.reprobe_max)
            strategy.to_skip = strategy.pause

    # --- rounds -----------------------------------------------------------------------------------------------

    def _rests(self, request: RequestGovernor, n_lanes: int) -> bool:
        """Whether nothing is drafted, whatever it would bring."""
        return request.resting is not None or 0 < self._limits.max_lanes < n_lanes

    def may_pay(self, request: RequestGovernor, longest: int, n_lanes: int) -> bool:
        """Whether guessing is worth its time: some draft of up to `longest` tokens would pay if it were right, or it is
        time to look again.
        """
        limits = self._limits
        if self._rests(request, n_lanes):
            return False
        cost = self._cost(n_lanes)
        if cost.needs_plain or cost.largest_gain(longest) > limits.min_speedup:
            return True
        probe = self._probes.setdefault(n_lanes, _Probe(limits.reprobe))
        if probe.declined + 1 >= probe.pause:
            return True  # the draft is counted where `choose` tries it
        request.declined += 1
        probe.declined += 1
        return False

    def choose(
        self, request: RequestGovernor, draft: Draft, n_lanes: int, others: DraftRows = NONE, *, blind: bool = False
    ) -> int:
        """How many tokens of `draft` to verify: the count with the best expected tokens per time.

        Args:
            request: the lane's.
            n_lanes: lanes in this pass.
            others: draft rows that other lanes have already put into it.
            blind: whether forced tokens add rows without logits.
        """
        limits = self._limits
        if self._rests(request, n_lanes):
            return 0
        cost = self._cost(n_lanes)
        if cost.needs_plain:
            return 0
        rows = others
        plain = n_lanes / cost.ratio(rows)
        best, best_length, expected, likely = plain * limits.min_speedup, 0, float(n_lanes), 1.0
        n_good = 0
        for i in range(len(draft)):
            likely *= self._probability(request, key(draft, i))
            expected += likely
            if likely >= 0.5:
                n_good = i + 1
            rows += BLIND if blind and draft.sources[i] == GRAMMAR else FULL
            speed = expected / cost.ratio(rows)
            if speed > best and cost.may_try(rows):
                best, best_length = speed, i + 1
        return self._or_probe(self._probes, best_length, request, n_lanes, max(n_good, min(len(draft), 2)))

    def afford(self, request: RequestGovernor, network: Network, budget: int, n_lanes: int) -> int:
        """How many tokens of a network's draft are worth making, at most `budget`: its passes cost time, too.

        Args:
            network: who would draft.
            n_lanes: lanes in this pass.
        """
        limits = self._limits
        cost = self._cost(n_lanes)
        if self._rests(request, n_lanes) or cost.needs_plain:
            return 0
        # Its first draft reads the whole prompt, so a network of this size is not tried to see whether it might pay.
        if cost.largest_gain(budget, network.expected_cost) <= limits.min_speedup:
            request.declined += 1
            return 0
        seconds = self._draft_seconds.get(network.source)
        measured = cost.relative(seconds) if seconds is not None else None
        step = network.expected_cost if measured is None else measured
        best, best_length, expected, likely = n_lanes * limits.min_speedup, 0, float(n_lanes), 1.0
        for i in range(budget):
            likely *= self._probability(request, (network.source, 0, min(i, _MAX_DEPTH)))
            expected += likely
            speed = expected / (cost.ratio(DraftRows(i + 1)) + step * (i + 1))
            if speed > best:
                best, best_length = speed, i + 1
        return self._or_probe(self._draft_probes, best_length, request, n_lanes, min(budget, 2))

    def _or_probe(
        self, probes: dict[int, _Probe], best_length: int, request: RequestGovernor, n_lanes: int, longest: int
    ) -> int:
        """`best_length`; where that is 0, now and then a short draft all the same."""
        limits = self._limits
        probe = probes.setdefault(n_lanes, _Probe(limits.reprobe))
        if best_length:
            probe.pause, probe.declined = limits.reprobe, 0
            return best_length
        request.declined += 1
        probe.declined += 1
        if probe.declined < probe.pause:
            return 0
        # What was measured may have been another process's doing, and some kernels are slow for a few rows and fast for
        # many: look again, ever more rarely and ever further, where the guess is a good one.
        length = min(longest, probe.length)
        probe.pause, probe.declined = min(2 * probe.pause, limits.reprobe_max), 0
        probe.length = 2 * probe.length if probe.length < _LONGEST_PROBE else 2
        return length

    def observe_drafting(self, source: str, n_tokens: int, seconds: float) -> None:
        """A network took so long to draft `n_tokens`."""
        if n_tokens:
            known = self._draft_seconds.get(source, seconds / n_tokens)
            # One sample that another process has slowed must not end the drafting: a sample counts threefold at most.
            self._draft_seconds[source] = known + COST_RATE * (min(seconds / n_tokens, OUTLIER * known) - known)

    def observe_pass(self, n_lanes: int, drafted: DraftRows, seconds: float) -> None:
        """A pass without prompt rows took so long."""
        self._cost(n_lanes).observe(drafted, seconds)

    def observe_draft(self, request: RequestGovernor, draft: Draft, committed: list[int], n_verified: int) -> None:
        """What came where `draft` was guessed.

        Args:
            draft: the whole guess, verified or not.
            committed: the tokens that came, an end token included; each was sampled where `draft` has its own.
            n_verified: how many of `draft` were in the pass.
        """
        right = 0
        for i, (guess, came) in enumerate(zip(draft.tokens, committed, strict=False)):
            self._acceptance.observe(key(draft, i), right=guess == came)
            request.acceptance.observe(key(draft, i), right=guess == came)
            if guess != came or i >= n_verified:
                break
            right += 1
        if not n_verified:
            return
        request.rounds += 1
        request.accepted += right
        floor, rounds = self._limits.min_yield, self._limits.yield_rounds
        if request.rounds >= rounds and request.accepted / request.rounds < floor:
            request.resting = f"fewer than {floor} accepted tokens per round"

    def _cost(self, n_lanes: int) -> CostCurve:
        curve = self._costs.get(n_lanes)
        if curve is None:
            curve = self._costs[n_lanes] = CostCurve(n_lanes)
        return curve

    def _probability(self, request: RequestGovernor, at: Key) -> float:
        right, total = self._acceptance.counts(at)
        prior = _PRIOR_ACCEPTANCE.get(at[0], 0.5)
        general = (right + _PRIOR_WEIGHT * prior) / (total + _PRIOR_WEIGHT)
        own_right, own_total = request.acceptance.counts(at)
        return (own_right + _REQUEST_WEIGHT * general) / (own_total + _REQUEST_WEIGHT)

    # --- inspection -------------------------------------------------------------------------------------------

    def state(self) -> GovernorState:
        """What has been learned so far. Safe to call from another thread."""
        return GovernorState(
            costs={n_lanes: curve.measured() for n_lanes, curve in sorted(self._costs.items())},
            acceptance=self._acceptance.by_source(),
            pauses={proposer: strategy.to_skip for proposer, strategy in sorted(self._strategies.items())},
        )


def key(draft: Draft, i: int) -> Key:
    """What token `i` of `draft` is counted under."""
    depth = 0
    while depth < min(i, _MAX_DEPTH) and draft.sources[i - depth - 1] == draft.sources[i]:
        depth += 1
    return draft.sources[i], min(draft.matches[i], _MAX_MATCH), depth
