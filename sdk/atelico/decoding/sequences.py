"""The memory's sequences: which are in use, what the idle ones still hold, and who may reuse it.

A sequence outlives its request. A new request takes the longest common prefix from whatever there is: an idle sequence
is continued in place, a running lane's is shared by copy (the cells are not duplicated), a parked one is restored.
Whatever else is idle when a lane starts is parked (parked.py), so that it does not slow those that run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence as TokenSequence
from dataclasses import dataclass, field

from atelico.decoding.parked import Parked, ParkingLot
from atelico.runtime.context import Context
from atelico.runtime.prefix import common_prefix

# Sharing fewer tokens than this saves less than the copy's bookkeeping costs.
MIN_SHARED = 16
# A dialogue is continued when at most so many of its tokens would be lost; otherwise a copy of it stays parked for its
# own next turn.
MAX_LOST = 16


@dataclass
class Sequence:
    """One sequence of the memory.

    Attributes:
        tokens: what its memory holds, in order.
        reserved: tokens a running lane may still make it grow to; 0 while idle.
        n_shared: leading tokens whose cells belong to the sequence `owner`.
        last_used: a counter, larger is later.
    """

    id: int
    tokens: list[int] = field(default_factory=list)
    reserved: int = 0
    n_shared: int = 0
    owner: Sequence | None = None
    last_used: int = 0

    @property
    def running(self) -> bool:
        """Whether a lane uses it."""
        return self.reserved > 0

    @property
    def n_cells(self) -> int:
        """Memory cells it takes, or may come to take, beyond those it shares."""
        return max(self.reserved, len(self.tokens)) - self.n_shared


class SequencePool:
    """All sequences of one context, and the budget of memory cells they share. Used by the decode thread only."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._clock = itertools.count(1)
        self._sequences = [Sequence(i) for i in range(context.n_sequences)]
        self._parked = ParkingLot(context)

    @property
    def n_cells(self) -> int:
        """Cells in use or reserved."""
        return sum(sequence.n_cells for sequence in self._sequences)

    def cached_tokens(self, sequence_id: int) -> list[int]:
        """What a sequence holds."""
        return self._sequences[sequence_id].tokens

    def acquire(self, prompt: TokenSequence[int], reserve: int, *, reuse: bool = True) -> Sequence | None:
        """A sequence for a new lane, holding as much of `prompt` as memory already has, but never all of it.

        Args:
            prompt: the last token is always read anew, since its logits are needed.
            reserve: tokens the lane may grow to.
            reuse: False takes an empty one, so that the prompt is read as in a fresh process.

        Returns:
            The sequence, its `tokens` a prefix of `prompt`; or None while running lanes leave no room.
        """
        prefix = prompt[: len(prompt) - 1] if reuse else []
        source, n_common = self._reusable(prefix)
        sequence = self._restore(prefix, max(n_common, MIN_SHARED - 1), reserve)
        if sequence is None and source is not None and source.tokens:
            begin = self._begin_shared if source.running else self._continue
            sequence = begin(source, n_common, reserve)
        elif sequence is None:
            sequence = self._empty(reserve)
        if sequence is not None:
            sequence.reserved = reserve
        return sequence

    def _begin_shared(self, source: Sequence, length: int, reserve: int) -> Sequence | None:
        """An empty sequence that shares the first `length` tokens of the running `source`."""
        sequence = self._empty(reserve - length)
        if sequence is not None:
            self._context.share(source.id, sequence.id, length)
            sequence.tokens = source.tokens[:length]
            sequence.n_shared, sequence.owner = length, source
        return sequence

    def _continue(self, source: Sequence, length: int, reserve: int) -> Sequence | None:
        """The idle `source` itself, cut to its first `length` tokens."""
        had_others = self.park_idle(keep=source)
        if self.n_cells - source.n_cells + reserve > self._context.n_cells:
            return None
        if len(source.tokens) - length > MAX_LOST:
            self._park(source)
        if had_others:
            self._lower(source)
        self._context.truncate(source.id, length)  # which `_reusable` found possible
        source.tokens = source.tokens[:length]
        source.n_shared = min(source.n_shared, length)
        for other in self._sequences:
            if other.owner is source:  # what it shared beyond the cut is its own from now on
                other.n_shared = min(other.n_shared, length)
        return source

    def _lower(self, source: Sequence) -> None:
        """Move the idle `source` to the lowest cells, since lanes that run together scatter theirs."""
        lossless = self._context.can_restore(len(source.tokens), 1)  # no window of it is behind
        if lossless and not any(sequence.running for sequence in self._sequences):
            state = self._context.state(source.id)
            self._context.clear(source.id)
            if not self._context.restore(source.id, state):
                source.tokens = []

    def _restore(self, prefix: TokenSequence[int], n_beaten: int, reserve: int) -> Sequence | None:
        """The parked dialogue with the most of `prefix`, cut to that; None where that is no more than `n_beaten`."""
        parked = self._parked.take(prefix, n_beaten)
        if parked is None:
            return None
        length = common_prefix(parked.tokens, prefix)
        sequence = self._empty(max(reserve, len(parked.tokens)))
        done = (
            sequence is not None
            and self._context.restore(sequence.id, parked.state)
            and self._context.truncate(sequence.id, length)
        )
        if not done or len(parked.tokens) - length > MAX_LOST:
            self._parked.add(parked, self._n_parkable)
        if sequence is None:
            return None
        if not done:
            self._context.clear(sequence.id)
            return None
        sequence.tokens = parked.tokens[:length]
        return sequence

    def release(self, sequence: Sequence, tokens: list[int]) -> None:
        """A lane is done with `sequence`, whose memory holds exactly `tokens` and stays for others to reuse."""
        sequence.reserved = 0
        sequence.last_used = next(self._clock)
        sequence.tokens = tokens
        if self._context.recurrent or not self._context.truncate(sequence.id, len(tokens)):
            self.forget(sequence)

    def export(self, tokens: list[int]) -> bytes | None:
        """The state of the memory after exactly `tokens`; None where memory does not hold them."""
        sequence = self.acquire([*tokens, -1], len(tokens) + 1)
        if sequence is None:
            return None
        state = self._context.state(sequence.id) if sequence.tokens == tokens else None
        self.release(sequence, sequence.tokens)
        return state

    def adopt(self, tokens: list[int], state: bytes) -> bool:
        """Take in a state that `export` returned for `tokens`. False when there is no room, or it does not fit."""
        sequence = self._empty(len(tokens))
        if sequence is None or not self._context.restore(sequence.id, state):
            return False
        self.release(sequence, tokens)
        return True

    def forget(self, sequence: Sequence) -> None:
        """Empty `sequence`."""
        heirs = [other for other in self._sequences if other.owner is sequence]
        if heirs:  # the cells live on in those that share them; the one with most of them counts them from now on
            heir = max(heirs, key=lambda other: other.n_shared)
            for other in heirs:
                other.owner = heir
            heir.owner, heir.n_shared = None, 0
        self._context.clear(sequence.id)
        sequence.tokens, sequence.reserved, sequence.n_shared, sequence.owner = [], 0, 0, None

    def park_idle(self, keep: Sequence | None = None) -> bool:
        """Move every idle sequence but `keep` out of the KV cache; False when there was nothing to move."""
        idle = [s for s in self._sequences if not s.running and s.tokens and s is not keep]
        idle.sort(key=lambda sequence: sequence.last_used, reverse=True)
        for i, sequence in enumerate(idle):
            if i < self._n_parkable:
                self._park(sequence)
            self.forget(sequence)
        return bool(idle)

    def _park(self, sequence: Sequence) -> None:
        """Park a copy of what `sequence` holds."""
        if self._n_parkable and self._parked.has_room(self._context.state_size(sequence.id)):
            parked = Parked(sequence.tokens, self._context.state(sequence.id), sequence.last_used)
            self._parked.add(parked, self._n_parkable)

    @property
    def _n_parkable(self) -> int:
        """Dialogues that may be parked beside the running lanes and the one that is about to start."""
        return max(len(self._sequences) - sum(sequence.running for sequence in self._sequences) - 1, 0)

    def _reusable(self, prompt: TokenSequence[int]) -> tuple[Sequence | None, int]:
        """The sequence with the longest common prefix that is worth reusing, and that prefix's length."""
        if self._context.recurrent:
            return None, 0
        lengths = [(common_prefix(sequence.tokens, prompt), sequence) for sequence in self._sequences]
        # Among equals an idle one, which is continued in place, and the latest.
        n_common, source = max(lengths, key=lambda pair: (pair[0], not pair[1].running, pair[1].last_used))
        # A sequence that was restored holds no more than its last window.
        usable = n_common >= MIN_SHARED and self._context.can_truncate(source.id, n_common)
        return (source, n_common) if usable else (None, 0)

    def _empty(self, n_new: int) -> Sequence | None:
        """An empty sequence that may take `n_new` cells, or None while running lanes leave no room."""
        self.park_idle()
        if self.n_cells + n_new > self._context.n_cells:
            return None
        return next((sequence for sequence in self._sequences if not sequence.running), None)
