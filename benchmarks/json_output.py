"""Constrained decoding of a character sheet: ours with and without speculation, and the rivals' own grammars."""

from __future__ import annotations

import json
from contextlib import ExitStack

from benchmarks import models
from benchmarks.report import Row, Target, console, lowest, median, number, ratio, table
from benchmarks.settings import Settings
from benchmarks.speed import OURS, Entry, asks_of, measure, open_entries, paired_ratio
from benchmarks.wire import Answer
from benchmarks.workloads import load_workloads

ENTRIES = (*OURS[1:], Entry("llama-cpp-python", "llama_cpp_python"), Entry("llama-server", "llama_server"))


def run(settings: Settings) -> list[Row]:
    """One row per model and way of sampling. A first answer warms grammar caches, where there are any."""
    workload = load_workloads()["character JSON"]
    rows: list[Row] = []
    for model in (models.Q4_K_M,) if settings.quick else models.MAIN:
        with ExitStack() as stack:
            contenders = open_entries(stack, (OURS[0], *ENTRIES), models.model_file(model), settings)
            asks = asks_of(workload, contenders["bare "], settings)
            measure(ENTRIES, contenders, asks[:1], sampled=True)
            for sampled in (False, True):
                answers = measure(ENTRIES, contenders, asks, sampled=sampled)
                rows.append({"model": model, "sampled": sampled} | _row(answers))
                console.print(f"[dim]json: {model}{', T 0.8' if sampled else ''}[/dim]")
    return rows


def _row(answers: dict[str, list[Answer]]) -> Row:
    speculating = answers["speculating"]
    proposed = sum(answer.n_proposed for answer in speculating)
    return {
        "tokens_per_second": {name: median(a.tokens_per_second for a in found) for name, found in answers.items()},
        "answer_s": {name: median(a.total_s for a in found if a.finished) for name, found in answers.items()},
        "first_token_s": {name: median(a.first_token_s for a in found) for name, found in answers.items()},
        "valid": {name: sum(_is_json(a.text) for a in found if a.finished) for name, found in answers.items()},
        "finished": {name: sum(a.finished for a in found) for name, found in answers.items()},
        "speed_up": paired_ratio(answers, "speculating", "plain"),
        "acceptance": sum(answer.n_accepted for answer in speculating) / proposed if proposed else None,
    }


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show; of several models and ways of sampling the worst counts."""

    def lead(rival: str) -> float | None:
        return lowest(ratio(row["tokens_per_second"]["speculating"], row["tokens_per_second"][rival]) for row in rows)

    return [
        Target(
            "character JSON: speculating / our plain constrained decoding", lowest(r["speed_up"] for r in rows), 1.8
        ),
        Target("character JSON: ours / llama-server's constrained decoding", lead("llama-server"), 2.0),
        Target("character JSON: ours / llama-cpp-python's constrained decoding", lead("llama-cpp-python"), 3.0),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    names = [entry.name for entry in ENTRIES]
    table(
        "Character JSON: tokens per second (seconds per finished answer)",
        ("model", *names, "speed-up", "accepted"),
        (
            (
                row["model"] + (", T 0.8" if row["sampled"] else ", greedy"),
                *(f"{number(row['tokens_per_second'][n], 1)} ({number(row['answer_s'][n])})" for n in names),
                number(row["speed_up"]),
                number(row["acceptance"]),
            )
            for row in rows
        ),
    )
