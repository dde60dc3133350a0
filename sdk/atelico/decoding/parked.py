"""Dialogues parked in host memory: what an idle sequence held, moved out of the KV cache.

Attention walks every cell up to the highest one in use, so whatever only waits for its next turn would slow all that
run. Copying it out and back costs about as much as one token for some hundreds of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from atelico.runtime.context import Context
from atelico.runtime.prefix import common_prefix


@dataclass(frozen=True)
class Parked:
    """A dialogue that waits. `state`: its memory as `Context.state` wrote it; `last_used`: larger is later."""

    tokens: list[int]
    state: bytes
    last_used: int


class ParkingLot:
    """The parked dialogues of one context. Used by the decode thread only.

    They hold at most as many tokens as the context has cells, so they take no more memory than its KV cache, and less
    where the machine has less. The least recently used one is forgotten first.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._parked: list[Parked] = []

    def has_room(self, n_bytes: int) -> bool:
        """Whether this machine has memory for a state, and as much again for everybody else."""
        return bool(psutil.virtual_memory().available > 2 * n_bytes)

    def add(self, parked: Parked, n_most: int) -> None:
        """Keep `parked`, and at most `n_most` dialogues with it."""
        self._parked = sorted([*self._parked, parked], key=lambda one: one.last_used)
        while len(self._parked) > n_most or sum(len(one.tokens) for one in self._parked) > self._context.n_cells:
            del self._parked[0]

    def take(self, prompt: Sequence[int], n_beaten: int) -> Parked | None:
        """Remove and return the dialogue that can begin `prompt` with the most tokens, if those exceed `n_beaten`."""
        longest, n_common = None, n_beaten
        for parked in reversed(self._parked):  # the latest first
            length = common_prefix(parked.tokens, prompt)
            if length > n_common and self._context.can_restore(len(parked.tokens), length):
                longest, n_common = parked, length
        if longest is not None:
            self._parked.remove(longest)
        return longest
