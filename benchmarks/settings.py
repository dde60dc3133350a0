"""How much is measured and under which conditions: one frozen struct, shared by all benchmarks."""

from __future__ import annotations

import os
from dataclasses import dataclass

from atelico.runtime.threads import default_threads


@dataclass(frozen=True)
class Settings:
    """Sizes of a run.

    Attributes:
        quick: a few small measurements that show whether everything works; its numbers mean little.
        n_threads: threads of every engine, where the benchmark is not about defaults.
        n_prompts: prompts taken of each workload, of the ten there are.
        max_tokens: output tokens at most.
        n_ctx: tokens of context of every engine.
    """

    quick: bool = False
    n_threads: int = 1
    n_prompts: int = 2
    max_tokens: int = 64
    n_ctx: int = 2048

    @staticmethod
    def make(*, quick: bool, n_threads: int | None = None, n_prompts: int | None = None) -> Settings:
        """The settings of a full or a quick run; None takes the run's own number."""
        return Settings(
            quick=quick,
            n_threads=n_threads or default_threads(),
            n_prompts=n_prompts or (1 if quick else 2),
            max_tokens=32 if quick else 64,
        )


def worker_environment(*, short_spin: bool) -> dict[str, str]:
    """The environment of an engine's process. `short_spin`: libgomp's setting that we choose for ourselves; False
    leaves what the engine's users get."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("GOMP_", "OMP_"))}
    if short_spin:
        environment["GOMP_SPINCOUNT"] = "500"
    return environment
