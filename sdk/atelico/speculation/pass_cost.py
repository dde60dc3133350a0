"""What forward passes cost by their draft rows, relative to a pass without any."""

from __future__ import annotations

from dataclasses import dataclass

# What an additional row costs before it has been measured, relative to a pass with one row. Measured curves lie between
# 0.1 (memory-bound, many cores) and 2 (a small model on one core); an optimistic guess gets itself measured.
_PRIOR_ROW_COST = 0.2
_FIRST_PLAIN, _PLAIN_EVERY = 3, 64
COST_RATE = 0.15
# Samples that are this many times slower than expected are another process's doing, not the draft's.
OUTLIER = 3.0


@dataclass(frozen=True)
class DraftRows:
    """The draft rows of a pass: those that add logits to it, and those that do not."""

    full: int = 0
    blind: int = 0

    def __add__(self, other: DraftRows) -> DraftRows:
        return DraftRows(self.full + other.full, self.blind + other.blind)


NONE, FULL, BLIND = DraftRows(), DraftRows(full=1), DraftRows(blind=1)


class _Ratios:
    """Relative times by number of rows: measured, between measured ones, or beyond them."""

    def __init__(self, prior: float) -> None:
        """`prior`: what a row adds before anything has been measured."""
        self._prior = prior
        self._known: dict[int, tuple[float, float]] = {}  # rows -> (ratio, weight)

    @property
    def horizon(self) -> int:
        """Rows that may be tried next: where a few cost too much, many would have wasted a round."""
        return 2 * max(self._known, default=0) or 1

    def at(self, n_rows: int) -> float:
        """The relative time of a pass with `n_rows` draft rows."""
        if n_rows == 0:
            return 1.0
        known = self._known.get(n_rows)
        if known is not None:
            return known[0]
        below = max((n for n in self._known if n < n_rows), default=0)
        above = min((n for n in self._known if n > n_rows), default=None)
        start = self._known[below][0] if below else 1.0
        if above is not None:
            share = (n_rows - below) / (above - below)
            return start + share * (self._known[above][0] - start)
        slope = (start - 1.0) / below if below else self._prior
        return start + max(slope, 0.05) * (n_rows - below)

    def observe(self, n_rows: int, measured: float) -> None:
        """A pass with `n_rows` draft rows took `measured` times a plain one."""
        ratio, weight = self._known.get(n_rows, (0.0, 0.0))
        rate = max(COST_RATE, 1.0 / (weight + 1.0))
        self._known[n_rows] = (ratio + rate * (max(measured, 0.5) - ratio), weight + 1.0)

    def measured(self) -> dict[int, float]:
        """What has been measured."""
        return {n: round(ratio, 3) for n, (ratio, _) in sorted(self._known.items())}


class CostCurve:
    """Relative time of a pass by its draft rows, for one number of lanes."""

    def __init__(self, n_lanes: int = 1) -> None:
        prior = _PRIOR_ROW_COST / (1.0 + _PRIOR_ROW_COST * (n_lanes - 1))
        self._base: float | None = None
        self._n_plain = 0
        self._since_plain = 0
        self._n_lanes = n_lanes
        self._full, self._blind = _Ratios(prior), _Ratios(prior)
        self._gains: dict[tuple[int, float], float] = {}  # what largest_gain has found since the last pass with drafts

    @property
    def needs_plain(self) -> bool:
        """Whether the next pass should carry no draft: a ratio needs a fresh plain pass to compare with."""
        return self._n_plain < _FIRST_PLAIN or self._since_plain >= _PLAIN_EVERY

    def observe(self, drafted: DraftRows, seconds: float) -> None:
        """A pass with these draft rows took so long."""
        self._since_plain += 1
        is_plain = drafted == DraftRows()
        if is_plain:
            self._n_plain, self._since_plain = self._n_plain + 1, 0
        expected = self.ratio(drafted)
        if self._base is None:
            self._base = seconds / expected
            return
        if seconds > OUTLIER * self._base * expected:
            # Not evidence about drafts; but a machine that has become slower for good must be believed in the end.
            self._base *= 1.1
            return
        if is_plain:
            self._base += COST_RATE * (seconds - self._base)
            return
        self._gains.clear()
        relative = seconds / self._base
        if drafted.full:  # what the blind rows are known to take is not theirs
            self._full.observe(drafted.full, relative - self._blind.at(drafted.blind) + 1.0)
        else:
            self._blind.observe(drafted.blind, relative)
        # The base follows slowly here too: a run that always drafts must notice a growing context.
        self._base += 0.3 * COST_RATE * (seconds / self.ratio(drafted) - self._base)

    def ratio(self, drafted: DraftRows) -> float:
        """Time of a pass with these draft rows, relative to one with none."""
        return self._full.at(drafted.full) + self._blind.at(drafted.blind) - 1.0

    def largest_gain(self, longest: int, per_token: float = 0.0) -> float:
        """Tokens per time, relative to a pass without drafts, if one lane drafts up to `longest` tokens, all right.

        Args:
            per_token: what it takes to make a token of the draft, relative to a pass without one.
        """
        gain = self._gains.get((longest, per_token))
        if gain is None:
            gains = (
                (self._n_lanes + n) / (self.ratio(DraftRows(n)) + per_token * n) / self._n_lanes
                for n in range(1, longest + 1)
            )
            gain = self._gains[longest, per_token] = max(gains, default=0.0)
        return gain

    def may_try(self, drafted: DraftRows) -> bool:
        """Whether so many rows are no more than twice what has been measured."""
        return drafted.full <= self._full.horizon and drafted.blind <= self._blind.horizon

    def relative(self, seconds: float) -> float | None:
        """`seconds` as a multiple of a pass without drafts; None before any was measured."""
        return seconds / self._base if self._base else None

    def measured(self) -> dict[DraftRows, float]:
        """What has been measured: relative times. Safe to call from another thread."""
        full = {DraftRows(full=n): ratio for n, ratio in self._full.measured().items()}
        return full | {DraftRows(blind=n): ratio for n, ratio in self._blind.measured().items()}
