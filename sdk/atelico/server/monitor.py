"""A live view of a server in the terminal: one line per model, twice a second."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from atelico.decoding.load import ModelLoad
from atelico.server.metrics import Totals
from atelico.server.state import ServerState

_REFRESHES_PER_S = 2


class Monitor:
    """Shows the view inside a `with` block; reads counters only, on a thread of its own."""

    def __init__(self, state: ServerState, url: str, console: Console | None = None) -> None:
        self._state = state
        self._url = url
        self._before: dict[str, tuple[float, int]] = {}  # model: moment, tokens by then
        self._live = Live(
            get_renderable=self.view, refresh_per_second=_REFRESHES_PER_S, console=console, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def view(self) -> Table:
        """The table of this moment."""
        title = f"atelico at {self._url}" + (" (stopping)" if self._state.stopping else "")
        table = Table(title=title, title_justify="left", box=None, header_style="bold")
        table.add_column("model", overflow="fold")
        for column in ("state", "lanes", "queue", "tokens/s", "accepted drafts", "memory", "requests"):
            table.add_column(column, justify="right")
        for load in self._state.engine.loads():
            totals = self._state.metrics.totals(load.model)
            table.add_row(
                load.model,
                load.state,
                f"{load.loop.n_running}/{load.loop.n_lanes}",
                str(load.n_waiting),
                f"{self._tokens_per_s(load, totals):.1f}",
                f"{totals.n_accepted / totals.n_proposed:.0%}" if totals.n_proposed else "-",
                f"{load.loop.n_kv_tokens / load.loop.n_kv_capacity:.0%}" if load.loop.n_kv_capacity else "-",
                str(totals.n_requests),
            )
        return table

    def _tokens_per_s(self, load: ModelLoad, totals: Totals) -> float:
        now, n_tokens = time.monotonic(), totals.n_output + load.loop.n_output
        then, n_before = self._before.get(load.model, (now, n_tokens))
        self._before[load.model] = now, n_tokens
        # An answer that ends between two looks is for a moment counted in neither place.
        return max(n_tokens - n_before, 0) / (now - then) if now > then else 0.0
