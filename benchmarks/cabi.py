"""How long calls of libatelico keep a game's thread, in a 60 Hz loop while a model starts, loads and generates.

Each run is a process of its own (tests/cabi/frames.c) that times every call; its longest call per function counts.
Run with: python -m benchmarks.cabi
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.machine import machine
from benchmarks.report import Row, median, number

ROOT = Path(__file__).parents[1]
RUNS = 5


def main(runs: int = RUNS) -> list[Row]:
    """Build the library, measure, print the table. Returns one row per function."""
    with tempfile.TemporaryDirectory() as folder:
        program = _build(Path(folder))
        measured = [_measure(program) for _ in range(runs)]
    rows: list[Row] = [
        {
            "call": name,
            "calls": sum(run[name][1] for run in measured),
            "median_longest_ms": median(run[name][0] for run in measured),
            "longest_ms": max(run[name][0] for run in measured),
        }
        for name in measured[0]
    ]
    _show(rows, runs)
    return rows


def _build(folder: Path) -> Path:
    subprocess.run([sys.executable, str(ROOT / "ffi/cabi/build.py"), "--out", str(folder)], check=True)
    program = folder / "frames"
    command = [os.environ.get("CC", "cc"), "-std=c99", "-D_GNU_SOURCE", "-O2", str(ROOT / "tests/cabi/frames.c")]
    command += [f"-I{ROOT / 'tests/cabi'}", f"-I{folder}", f"-L{folder}", "-latelico", f"-Wl,-rpath,{folder}"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def _measure(program: Path) -> dict[str, tuple[float, int]]:
    """Of each function, the longest call in milliseconds and how many there were."""
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=120)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: (float(longest), int(count)) for name, longest, count in lines}


def _show(rows: list[Row], runs: int) -> None:
    facts: dict[str, Any] = machine()
    table = Table(title=f"libatelico: the longest call, {runs} runs, SmolLM2-135M on 1 thread")
    for heading in ("call", "calls", "median of the longest, ms", "longest, ms"):
        table.add_column(heading, justify="left" if heading == "call" else "right")
    for row in rows:
        table.add_row(row["call"], str(row["calls"]), number(row["median_longest_ms"], 3), number(row["longest_ms"], 3))
    console = Console(width=120)
    console.print(f"{facts['processor']}, {facts['cores']} cores, load {facts['load']}; {facts['versions']}")
    console.print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    main(parser.parse_args().runs)
