"""What benchmarks report: targets met or not, tables, medians, and the JSON files in build/bench."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from benchmarks.settings import Settings

FOLDER = Path(__file__).parents[1] / "build" / "bench"
console = Console(width=150)

Row = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """A number that had to be reached. `measured` None: nothing was measured, so it is neither met nor missed."""

    what: str
    measured: float | None
    wanted: float
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether it was reached."""
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted

    @property
    def verdict(self) -> str:
        """The same in words."""
        return {True: "met", False: "not met", None: "not measured"}[self.met]


def median(values: Iterable[float]) -> float | None:
    """The median, or None of nothing."""
    found = list(values)
    return statistics.median(found) if found else None


def spread(values: Sequence[float]) -> float | None:
    """The interquartile range, or the whole range of fewer than four values."""
    if len(values) < 2:
        return None
    if len(values) < 4:
        return max(values) - min(values)
    low, _, high = statistics.quantiles(values, n=4)
    return high - low


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean, or None of nothing."""
    found = [value for value in values if value > 0]
    return statistics.geometric_mean(found) if found else None


def lowest(values: Iterable[float | None]) -> float | None:
    """The smallest value that was measured."""
    return min((value for value in values if value is not None), default=None)


def ratio(a: float | None, b: float | None) -> float | None:
    """a / b, where both were measured."""
    return a / b if a is not None and b else None


def number(value: float | None, digits: int = 2) -> str:
    """A number for a table."""
    return "–" if value is None else f"{value:.{digits}f}"


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others numbers."""
    grid = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        grid.add_column(column, justify="right" if i else "left")
    for row in rows:
        grid.add_row(*row)
    console.print(grid)


def markdown(introduction: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A paragraph and a table for a document."""
    table_rows = (columns, ["---"] * len(columns), *rows)
    return "\n".join([introduction, "", *(f"| {' | '.join(cells)} |" for cells in table_rows), ""])


def show_targets(targets: Sequence[Target]) -> None:
    """Print what had to be shown, and whether it was."""
    if targets:
        table(
            "Targets",
            ("target", "wanted", "measured", ""),
            ((t.what, f"{'≥' if t.at_least else '≤'} {t.wanted:g}", number(t.measured), t.verdict) for t in targets),
        )


def save(name: str, settings: Settings, rows: Any, targets: Sequence[Target], seconds: float) -> Path:
    """Write one benchmark's results to build/bench/NAME.json."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    content = {
        "benchmark": name,
        "machine": machine(),
        "settings": asdict(settings),
        "seconds": round(seconds, 1),
        "targets": [{**asdict(target), "met": target.met} for target in targets],
        "rows": rows,
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
    return path


def load(name: str) -> Mapping[str, Any] | None:
    """What `save` wrote, or None."""
    path = FOLDER / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else None
