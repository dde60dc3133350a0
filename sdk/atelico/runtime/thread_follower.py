"""How many threads the machine has room for right now: follows the load other programs put on it.

With fewer free cores than threads, every barrier of a pass waits for the slowest thread, and two threads can be slower
than one. Wall time against CPU time of the passes shows that at once.
"""

from __future__ import annotations

import logging
import statistics
import time

from atelico.runtime.context import Context

logger = logging.getLogger(__name__)

_WINDOW = 16
# Below this share of the cores' time a thread was kept waiting; an idle machine gives 0.9 and more.
_CONTENDED = 0.75
# One more thread must make passes so much faster to be kept.
_WORTH_IT = 0.95
_FIRST_PAUSE, _LAST_PAUSE = 64, 1024


class ThreadFollower:
    """Chooses the number of threads of one context between 1 and `maximum`. Used by its decode thread only.

    Attributes:
        n_threads: in use now.
    """

    def __init__(self, context: Context, maximum: int) -> None:
        self._context = context
        self._maximum = maximum
        self.n_threads = maximum
        self._walls: list[float] = []
        self._busy = 0.0
        self._until_trial = _FIRST_PAUSE
        self._pause = _FIRST_PAUSE
        self._before_trial: float | None = None

    @property
    def enabled(self) -> bool:
        """Whether there is anything to choose."""
        return self._maximum > 1

    def observe(self, wall_s: float, cpu_s: float) -> None:
        """A pass of the usual shape (one row per lane) took so long, and so much CPU time of this process."""
        self._walls.append(wall_s)
        self._busy += cpu_s
        self._until_trial -= 1
        if len(self._walls) < _WINDOW:
            return
        median, share = statistics.median(self._walls), self._busy / (sum(self._walls) * self.n_threads)
        self._walls, self._busy = [], 0.0
        if self._before_trial is not None:
            self._judge(median)
        elif share < _CONTENDED and self.n_threads > 1:
            self._use(self.n_threads - 1)
            self._until_trial = self._pause
        elif self.n_threads < self._maximum and self._until_trial <= 0:
            self._before_trial = median
            self._use(self.n_threads + 1)

    def _judge(self, median: float) -> None:
        """End a trial of one more thread."""
        assert self._before_trial is not None
        if median <= self._before_trial * _WORTH_IT:
            self._pause = _FIRST_PAUSE
        else:
            self._use(self.n_threads - 1)
            self._pause = min(2 * self._pause, _LAST_PAUSE)
        self._before_trial = None
        self._until_trial = self._pause

    def _use(self, n_threads: int) -> None:
        logger.debug("decoding with %d threads instead of %d", n_threads, self.n_threads)
        self.n_threads = n_threads
        self._context.set_threads(n_threads)


class PassTimer:
    """Wall and CPU time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def wall(self) -> float:
        """Seconds that have passed."""
        return time.perf_counter() - self._wall

    def cpu(self) -> float:
        """Seconds of CPU time that all threads of this process have used."""
        return time.process_time() - self._cpu
