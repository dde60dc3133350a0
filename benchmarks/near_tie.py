"""How much a row's logits change in a batch with llama.cpp's kernels, and what the exact widths cost.

Logits of single rows against those of the same rows in batches, with clean memory ("row") and from a memory that such
batches wrote ("memory"). Run with: python -m benchmarks.near_tie
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import numpy as np
import numpy.typing as npt

from atelico.models.gguf import read_gguf
from atelico.runtime import kernels
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from benchmarks import models, report
from benchmarks.report import number, table
from benchmarks.world import world_text

WIDTHS = (2, 3, 4, 6, 7, 8, 17, 63)
N_BEFORE = (100, 300)
N_STRETCH = 126

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Noise:
    """Single rows against batches of `width`, in logits.

    Attributes:
        setup: how model and memory are set up.
        n_before: tokens in memory before.
        row, memory: standard deviation of the difference over all logits, the mean over rows.
        gap: 99th percentile of how far the gap between the best two moved.
        flips: share of rows with another best token.
        near: share of rows whose best two are closer than 0.1.
        cost: time of the pass, relative to one row.
    """

    model: str
    setup: str
    n_threads: int
    n_before: int
    width: int
    row: float
    memory: float
    gap: float
    flips: float
    near: float
    cost: float


def noise(name: str, *, exact: bool, n_threads: int = 1, widths: Sequence[int] = WIDTHS) -> list[Noise]:
    """All widths of one model. `exact`: set up as the engine does it, else as llama.cpp does by itself."""
    path = Path(models.model_file(name))
    types = read_gguf(path).matrix_types
    repack = not exact or kernels.repacks_exactly(types)
    n_exact = kernels.exact_rows(types, "cpu") if exact else 0
    model = Model(path, ModelOptions(n_gpu_layers=0, repack=repack))
    sizes = ContextOptions(
        n_ctx=1024, n_cells=1024, n_batch=64, n_sequences=4, n_outputs=64, n_threads=n_threads, n_exact=n_exact
    )
    context = Context(model, sizes)
    tokens = model.vocabulary.tokenize(world_text(1, 40))
    setup = f"{'repacked' if repack else 'as stored'}, V {'q8_0' if n_exact > 1 and n_threads > 1 else 'f16'}"
    found: list[Noise] = []
    try:
        for n_before in N_BEFORE:
            bench = _Stretch(context, tokens[: n_before + N_STRETCH], n_before)
            found += [Noise(name, setup, n_threads, n_before, width, *bench.measure(width)) for width in widths]
    finally:
        context.close()
        model.close()
    return found


class _Stretch:
    """Some tokens after a prefix that sequence 0 holds, with the logits of each computed alone."""

    def __init__(self, context: Context, tokens: list[int], n_before: int) -> None:
        for sequence in range(context.n_sequences):
            context.clear(sequence)
        self._context, self._tokens, self._n_before = context, tokens, n_before
        for start in range(0, n_before, 32):
            self._decode(0, start, min(start + 32, n_before), logits=False)
        started = time.thread_time()
        self._alone = np.concatenate([self._decode(0, i, i + 1) for i in range(n_before, len(tokens))])
        self._seconds = (time.thread_time() - started) / N_STRETCH
        self._top = np.argsort(-self._alone, axis=1)[:, :2]

    def measure(self, width: int) -> tuple[float, float, float, float, float, float]:
        """The numbers of a `Noise`."""
        context, n_before = self._context, self._n_before
        rows, dirty, seconds = [], [], 0.0
        context.share(0, 2, n_before)
        starts = range(n_before, len(self._tokens) - width + 1, width)
        for start in starts:
            context.share(0, 1, start)
            started = time.thread_time()
            rows.append(self._decode(1, start, start + width))
            seconds += time.thread_time() - started
            context.clear(1)
            self._decode(2, start, start + width)
            if start + width < len(self._tokens):
                context.share(2, 3, start + width)
                dirty.append(
                    self._decode(3, start + width, start + width + 1)[0] - self._alone[start + width - n_before]
                )
                context.clear(3)
        context.clear(2)
        batched = np.concatenate(rows)
        alone, top = self._alone[: len(batched)], self._top[: len(batched)]
        gaps, alone_gaps = _gaps(batched, top), _gaps(alone, top)
        return (
            float((batched - alone).std(axis=1).mean()),
            float(np.mean([row.std() for row in dirty])) if dirty else 0.0,
            float(np.quantile(np.abs(gaps - alone_gaps), 0.99)),
            float((batched.argmax(axis=1) != top[:, 0]).mean()),
            float((alone_gaps < 0.1).mean()),
            seconds / len(starts) / self._seconds,
        )

    def _decode(self, sequence: int, start: int, end: int, *, logits: bool = True) -> Floats:
        rows = [Row(self._tokens[i], i, sequence, logits) for i in range(start, end)]
        found = self._context.decode(rows)
        assert found is not None
        return found.copy()


def _gaps(rows: Floats, top: npt.NDArray[np.int64]) -> Floats:
    best = np.take_along_axis(rows, top, axis=1)
    gaps: Floats = best[:, 0] - best[:, 1]
    return gaps


def run(names: Sequence[str] = models.ALL) -> list[Noise]:
    """All set-ups of all models."""
    kernels.choose("llama.cpp")
    return [
        row
        for name in names
        for n_threads in (1, 2)
        for exact in (False, True)
        for row in noise(name, exact=exact, n_threads=n_threads, widths=WIDTHS if n_threads == 1 else (2, 7))
    ]


def _show_noise(rows: Sequence[Noise]) -> None:
    columns = ("model", "set-up", "threads", "tokens before", "rows", "row σ", "memory σ", "gap q99", "flips", "cost")
    table(
        "Logits of a row in a batch against the same row alone",
        columns,
        (
            (
                *(r.model, r.setup, str(r.n_threads), str(r.n_before), str(r.width)),
                *(number(r.row, 4), number(r.memory, 4), number(r.gap, 3), f"{r.flips:.1%}", number(r.cost)),
            )
            for r in rows
        ),
    )


def markdown() -> str | None:
    """The last run as one table: the differences by width, the larger one of the two memories. None without one."""
    result = report.load("near_tie")
    if result is None:
        return None
    lines: dict[tuple[str, str, int], list[report.Row]] = {}
    for row in result["rows"]:
        lines.setdefault((row["model"], row["setup"], row["n_threads"]), []).append(row)
    machine = result["machine"]
    return report.markdown(
        f"On {machine['processor']}, llama-cpp-python {machine['versions']['llama-cpp-python']}; columns 2 to "
        f"{WIDTHS[-1]}: rows of the batch.",
        ("model", "set-up", "threads", *(str(width) for width in WIDTHS), "best two move apart by"),
        [
            (
                *(model, setup, str(n_threads)),
                *(number(max((r["row"] for r in rows if r["width"] == width), default=None), 3) for width in WIDTHS),
                number(max(r["gap"] for r in rows), 2),
            )
            for (model, setup, n_threads), rows in lines.items()
        ],
    )


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print the table, return its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.near_tie", description=__doc__)
    parser.add_argument("--model", action="append", choices=models.ALL, help="only this model; repeatable")
    options = parser.parse_args([] if arguments is None else arguments)
    rows = run(options.model or models.ALL)
    _show_noise(rows)
    return [asdict(row) for row in rows]


if __name__ == "__main__":
    main(sys.argv[1:])
