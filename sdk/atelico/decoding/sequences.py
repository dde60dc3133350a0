"""The memory's sequences: which are in use, what the idle ones still hold, and who may reuse it.

A sequence outlives its request. A new request takes the longest common prefix from whatever is in memory: in place
where it simply continues an idle sequence, shared by copy (the cells are not duplicated) where others still need it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence as TokenSequence
from dataclasses import dataclass, field

from atelico.runtime.context import Context
from atelico.runtime.prefix import common_prefix

# Sharing fewer tokens than this saves less than the copy's bookkeeping costs.
MIN_SHARED = 16
# An idle sequence is continued in place when at most so many of its tokens would be lost; otherwise it is kept for its
# own next turn and its prefix is shared.
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
        source, n_common = self._reusable(prompt[: len(prompt) - 1]) if reuse else (None, 0)
        sequence = None
        if source is not None:
            if source.running or len(source.tokens) - n_common > MAX_LOST:
                sequence = self._begin_shared(source, n_common, reserve)
            if sequence is None and not source.running:
                sequence = self._continue(source, n_common, reserve)
        if sequence is None and self._make_room(reserve, keep=None):
            sequence = self._free_sequence(keep=None)
        if sequence is not None:
            sequence.reserved = reserve
        return sequence

    def _begin_shared(self, source: Sequence, length: int, reserve: int) -> Sequence | None:
        """An empty sequence that shares the first `length` tokens of `source`, which keeps all of its own."""
        if not self._make_room(reserve - length, keep=source):
            return None
        sequence = self._free_sequence(keep=source)
        if sequence is not None:
            self._context.share(source.id, sequence.id, length)
            sequence.tokens = source.tokens[:length]
            sequence.n_shared, sequence.owner = length, source
        return sequence

    def _continue(self, source: Sequence, length: int, reserve: int) -> Sequence | None:
        """The idle `source` itself, cut to its first `length` tokens."""
        if not self._make_room(reserve - source.n_cells, keep=source):
            return None
        self._context.truncate(source.id, length)
        source.tokens = source.tokens[:length]
        source.n_shared = min(source.n_shared, length)
        for other in self._sequences:
            if other.owner is source:  # what it shared beyond the cut is its own from now on
                other.n_shared = min(other.n_shared, length)
        return source

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
        sequence = self._free_sequence(keep=None) if self._make_room(len(tokens), keep=None) else None
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

    def forget_idle(self) -> bool:
        """Empty every idle sequence; False when there was nothing to empty."""
        idle = [sequence for sequence in self._sequences if not sequence.running and sequence.tokens]
        for sequence in idle:
            self.forget(sequence)
        return bool(idle)

    def _reusable(self, prompt: TokenSequence[int]) -> tuple[Sequence | None, int]:
        """The sequence with the longest common prefix that is worth reusing, and that prefix's length."""
        if self._context.recurrent:
            return None, 0
        lengths = [(common_prefix(sequence.tokens, prompt), sequence) for sequence in self._sequences]
        # Among equals an idle one, which may be continued in place, and the latest, which is evicted last.
        n_common, source = max(lengths, key=lambda pair: (pair[0], not pair[1].running, pair[1].last_used))
        return (source, n_common) if n_common >= MIN_SHARED else (None, 0)

    def _make_room(self, n_new: int, keep: Sequence | None) -> bool:
        """Evict idle sequences, the least recently used first, until `n_new` more cells fit."""
        running = sum(s.n_cells for s in self._sequences if s.running or s is keep)
        if running + n_new > self._context.n_cells:
            return False
        idle = sorted((s for s in self._sequences if not s.running and s is not keep), key=lambda s: s.last_used)
        for sequence in idle:
            if self.n_cells + n_new <= self._context.n_cells:
                break
            self.forget(sequence)
        return True

    def _free_sequence(self, keep: Sequence | None) -> Sequence | None:
        idle = [s for s in self._sequences if not s.running and s is not keep]
        if not idle:
            return None
        sequence = min(idle, key=lambda s: (bool(s.tokens), s.last_used))
        self.forget(sequence)
        return sequence
