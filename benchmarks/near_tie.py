"""How much a row's logits change in a batch, what the exact widths cost, and how often a text changes for it.

Part 1, kernels: logits of single rows against those of the same rows in batches, with clean memory ("row") and from a
memory that such batches wrote ("memory"). Part 2, texts: speculative ones against plain ones, over many tokens.
Run with: python -m benchmarks.near_tie
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
from tests.support.prompts import PROMPTS

from atelico import Engine, EngineConfig
from atelico.models.gguf import read_gguf
from atelico.protocol import ChatCompletion
from atelico.runtime import kernels
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from benchmarks import asking, models
from benchmarks.report import number, table
from benchmarks.world import sentences, world_text

WIDTHS = (2, 3, 4, 6, 7, 8, 17)
N_BEFORE = (100, 300)
N_STRETCH = 34
# With the draft length of each: passes of a network cost as much as what they draft for.
PROPOSERS = {"prompt_lookup": 16, "lookahead": 16, "prediction": 16, "draft_model": 4}
# No small model has a smaller one with its vocabulary, so another quantisation drafts: mostly right, never faster.
_DRAFTERS = {
    models.Q4_1: models.Q4_0,
    models.Q4_K_M: models.Q4_0,
    models.Q4_0: models.Q4_1,
    models.GEMMA: models.GEMMA,
}
N_TOKENS = 10_000
_PER_TEXT = 128

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


@dataclass
class Texts:
    """Speculative texts against plain ones. `logprobs`: the largest difference of a log-probability, up to the first
    token that differs.
    """

    model: str
    proposer: str
    k: int
    mode: str
    guard: str
    tokens: int = 0
    texts: int = 0
    differences: int = 0
    near_ties: int = 0
    proposed: int = 0
    accepted: int = 0
    logprobs: float = 0.0
    seconds: float = 0.0


def noise(name: str, *, exact: bool, n_threads: int = 1, widths: Sequence[int] = WIDTHS) -> list[Noise]:
    """All widths of one model. `exact`: set up as the engine does it, else as llama.cpp does by itself."""
    path = Path(models.model_file(name))
    types = read_gguf(path).matrix_types
    repack = not exact or kernels.repacks_exactly(types)
    n_exact = kernels.exact_rows(types, "cpu") if exact else 0
    model = Model(path, ModelOptions(n_gpu_layers=0, repack=repack))
    sizes = ContextOptions(
        n_ctx=1024, n_cells=1024, n_batch=64, n_sequences=4, n_outputs=32, n_threads=n_threads, n_exact=n_exact
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


def questions() -> list[str]:
    """Prompts that are worth drafting for: those of the exactness tests, and texts to repeat."""
    asked = [f"Repeat word for word: {' '.join(sentences(seed, 4))}" for seed in range(200)]
    return [*PROMPTS.values(), *asked]


def _largest_difference(plain: ChatCompletion, drafted: ChatCompletion) -> float:
    largest = 0.0
    ours, theirs = drafted.choices[0].logprobs, plain.choices[0].logprobs
    assert ours is not None and theirs is not None
    for one, other in zip(ours.content or (), theirs.content or (), strict=False):
        if one.token != other.token:
            break
        largest = max(largest, abs(one.logprob - other.logprob))
    return largest


def texts(name: str, n_tokens: int, guards: Sequence[str] = ("on",)) -> list[Texts]:
    """One entry per proposer, mode and guard, over `n_tokens` plain tokens each."""
    path = models.model_file(name)
    found: dict[tuple[str, str, str], Texts] = {}
    drafters = {path: models.model_file(_DRAFTERS[name])}
    with Engine(EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0, drafters=drafters)) as engine:
        for mode, options in {"greedy": {"temperature": 0}, "seeded": {"temperature": 0.8, "seed": 1}}.items():
            n_left = n_tokens
            for question in questions():
                if n_left <= 0:
                    break
                body: dict[str, Any] = {"model": path, "messages": [{"role": "user", "content": question}], **options}
                body |= {"max_tokens": _PER_TEXT, "cache_prompt": False, "logprobs": True}
                plain = engine.chat_completion(body, timeout=600)
                n_left -= plain.usage.completion_tokens
                for proposer in PROPOSERS:
                    for guard in guards:
                        empty = Texts(name, proposer, PROPOSERS[proposer], mode, guard)
                        cell = found.setdefault((proposer, mode, guard), empty)
                        started = time.perf_counter()
                        drafted = engine.chat_completion(
                            {
                                **body,
                                **asking.fields(proposer, PROPOSERS[proposer], plain.choices[0].message.content or ""),
                                "atelico": {"governor": "off", "near_tie": guard},
                            },
                            timeout=600,
                        )
                        assert drafted.atelico.speculation.active, drafted.atelico.speculation.reason
                        cell.seconds += time.perf_counter() - started
                        cell.texts += 1
                        cell.tokens += plain.usage.completion_tokens
                        cell.differences += drafted.choices[0].message.content != plain.choices[0].message.content
                        cell.near_ties += drafted.atelico.speculation.near_ties
                        cell.proposed += drafted.atelico.speculation.proposed
                        cell.accepted += drafted.atelico.speculation.accepted
                        cell.logprobs = max(cell.logprobs, _largest_difference(plain, drafted))
    return list(found.values())


def run(
    names: Sequence[str] = models.ALL, n_tokens: int = N_TOKENS, guards: Sequence[str] = ("on",)
) -> list[dict[str, Any]]:
    """Both parts, as rows of JSON."""
    rows: list[dict[str, Any]] = []
    kernel_rows: list[Noise] = []
    for name in names:
        for exact, n_threads in ((False, 1), (True, 1), (False, 2), (True, 2)):
            kernel_rows += noise(name, exact=exact, n_threads=n_threads, widths=WIDTHS if n_threads == 1 else (2, 7))
    _show_noise(kernel_rows)
    rows += [asdict(row) for row in kernel_rows]
    if n_tokens:
        cells = [cell for name in names for cell in texts(name, n_tokens, guards)]
        _show_texts(cells)
        rows += [asdict(cell) for cell in cells]
    return rows


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


def _show_texts(cells: Sequence[Texts]) -> None:
    columns = (
        "model",
        "proposer",
        "k",
        "mode",
        "guard",
        "tokens",
        "texts",
        "that differ",
        "decoded again",
        "proposed",
        "accepted",
        "logprobs",
        "s",
    )
    table(
        "Texts with speculation against plain ones",
        columns,
        (
            (
                *(c.model, c.proposer, str(c.k), c.mode, c.guard),
                *(str(n) for n in (c.tokens, c.texts, c.differences, c.near_ties, c.proposed, c.accepted)),
                f"{c.logprobs:.0e}",
                number(c.seconds, 0),
            )
            for c in cells
        ),
    )


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print the tables, return their rows. Exits with 1 where a guarded text differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.near_tie", description=__doc__)
    parser.add_argument(
        "--tokens", type=int, default=N_TOKENS, help="plain tokens per model, proposer and mode; 0: none"
    )
    parser.add_argument("--model", action="append", choices=models.ALL, help="only this model; repeatable")
    parser.add_argument("--unguarded", action="store_true", help="also with near_tie off")
    options = parser.parse_args([] if arguments is None else arguments)
    guards = ("on", "off") if options.unguarded else ("on",)
    rows = run(options.model or models.ALL, options.tokens, guards)
    changed = [row for row in rows if row.get("guard") == "on" and row["differences"]]
    if changed:
        raise SystemExit(1)
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
