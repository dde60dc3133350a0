"""How often speculation changes a text, and whether every change is a proven near tie: the full grid.

For each model, proposer and draft length, greedy and with seeds 1 to 5 at temperature 0.8, and under JSON schemas, the
answers of all prompts are compared with those of plain decoding token by token. A first difference counts as a near tie
only where a replay of both runs proves it (tests/support/near_tie.py). Run with: python -m benchmarks.exact_grid
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")
from tests.support.grid import JSON_MODES, LENGTHS, MODELS, N_JSON_TOKENS, N_TOKENS, PROPOSERS, SCHEMAS, TEXT_MODES
from tests.support.grid import response_format as form_of
from tests.support.near_tie import NotANearTie, explained
from tests.support.observe import Run, loaded_model
from tests.support.observe import run as answer
from tests.support.prompts import PROMPTS, request, speculative

from atelico import Engine, EngineConfig
from benchmarks import report
from benchmarks.settings import Settings

N_CTX = 1024


@dataclass
class Cell:
    """One line of the table: all prompts and draft lengths of a model, a proposer and a mode.

    Attributes:
        tokens: output tokens compared, up to and including the first difference of each pair of texts.
        differences: pairs of texts that differ.
        near_ties: how many of those are proven near ties.
        largest_gap: of the proven ones, in logits.
        unexplained: what the proof said of the others.
    """

    model: str
    proposer: str
    mode: str
    pairs: int = 0
    tokens: int = 0
    proposed: int = 0
    accepted: int = 0
    differences: int = 0
    near_ties: int = 0
    largest_gap: float = 0.0
    unexplained: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    """A prompt, the schema of its answer where it has one, and how to sample."""

    mode: str
    prompt: str
    fields: dict[str, Any]


def questions(n_prompts: int) -> Iterator[Question]:
    """Everything that is asked of a model."""
    for mode, options in TEXT_MODES.items():
        for prompt in list(PROMPTS.values())[:n_prompts]:
            yield Question(mode, prompt, {"max_tokens": N_TOKENS, **options})
    for mode, options in JSON_MODES.items():
        for name, (prompt, _) in list(SCHEMAS.items())[:n_prompts]:
            fields = {"max_tokens": N_JSON_TOKENS, "response_format": form_of(name), **options}
            yield Question(f"JSON, {mode}", prompt, fields)


def run(n_prompts: int = len(PROMPTS), models: tuple[str, ...] = MODELS) -> list[Cell]:
    """The whole grid, one cell per model, proposer and mode."""
    cells: dict[tuple[str, str, str], Cell] = {}
    with Engine(EngineConfig(n_ctx=N_CTX, n_threads=1, n_lanes=1, n_kept=0)) as engine:
        for model in models:
            for question in questions(n_prompts):
                body = request(model, question.prompt, **question.fields)
                plain = answer(engine, body)
                for proposer in PROPOSERS:
                    cell = cells.setdefault((model, proposer, question.mode), Cell(model, proposer, question.mode))
                    for k in LENGTHS:
                        _compare(engine, cell, plain, answer(engine, {**body, **speculative(proposer, k)}))
    return list(cells.values())


def _compare(engine: Engine, cell: Cell, plain: Run, drafted: Run) -> None:
    cell.pairs += 1
    cell.proposed += drafted.proposed
    cell.accepted += drafted.accepted
    try:
        tie = explained(loaded_model(engine, cell.model), plain, drafted)
    except NotANearTie as problem:
        cell.differences += 1
        cell.unexplained.append(str(problem))
        return
    cell.tokens += len(plain.output) if tie is None else tie.index + 1
    if tie is not None:
        cell.differences += 1
        cell.near_ties += 1
        cell.largest_gap = max(cell.largest_gap, *tie.gaps)


def print_table(cells: list[Cell]) -> None:
    """One line per cell."""
    columns = ("model", "proposer", "mode", "pairs", "tokens", "accepted", "differences", "near ties proven")
    rows = (
        (
            *(cell.model, cell.proposer, cell.mode, str(cell.pairs), str(cell.tokens)),
            f"{cell.accepted / cell.proposed:.0%}" if cell.proposed else "-",
            *(str(cell.differences), str(cell.near_ties), f"{cell.largest_gap:.3f}" if cell.near_ties else "-"),
        )
        for cell in cells
    )
    report.table("Texts with speculation compared with plain decoding", (*columns, "largest gap (logits)"), rows)


def main(arguments: list[str] | None = None) -> None:
    """Run, print the table and write a JSON file. Exits with 1 where a difference is no near tie."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exact_grid", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two prompts per model instead of all")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this model; repeatable")
    options = parser.parse_args([] if arguments is None else arguments)
    started = time.perf_counter()
    cells = run(2 if options.quick else len(PROMPTS), tuple(options.model or MODELS))
    print_table(cells)
    unexplained = [problem for cell in cells for problem in cell.unexplained]
    for problem in unexplained:
        print("not a near tie:", problem)
    settings = Settings(quick=options.quick, n_threads=1, max_tokens=N_TOKENS, n_ctx=N_CTX)
    report.save("exact_grid", settings, [asdict(cell) for cell in cells], [], time.perf_counter() - started)
    if unexplained:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
