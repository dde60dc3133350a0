"""How busy a model is, for monitors: counts only, taken from another thread and therefore up to a round old."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from atelico.speculation.governor import GovernorState

State = Literal["loading", "ready", "failed", "closed"]


@dataclass(frozen=True)
class LoopLoad:
    """What one decode loop is doing.

    Attributes:
        n_jobs: requests with a lane.
        n_running: lanes that generate, of `n_lanes`.
        n_output: tokens these lanes have generated so far.
        n_threads: threads that decode right now.
        n_kv_tokens: memory cells in use or reserved, of `n_kv_capacity`.
        governor: what it has learned.
    """

    n_jobs: int = 0
    n_running: int = 0
    n_lanes: int = 0
    n_output: int = 0
    n_kv_tokens: int = 0
    n_kv_capacity: int = 0
    n_threads: int = 0
    governor: GovernorState = field(default_factory=GovernorState)


@dataclass(frozen=True)
class ModelLoad:
    """One model. `n_waiting`: requests that have no lane yet."""

    model: str
    state: State
    n_waiting: int
    loop: LoopLoad = field(default_factory=LoopLoad)
