"""What a forward pass costs by its rows: our kernels, llama.cpp's, and ik_llama.cpp's where a Python with the wheel
ik-llama-cpp-python is named by ATELICO_IK_PYTHON. No engine around them, only llama_decode.

Each kind of kernels has a process of its own; the processes measure in turns. Run with: python -m benchmarks passes
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import models, report
from benchmarks.report import number, table

WIDTHS = (1, 2, 4, 8, 16)
N_ROUNDS = 3
CHILD = Path(__file__).parent / "pass_child.py"


def _measure(python: str, kind: str, path: str, n_threads: int, n_tokens: int) -> dict[str, float]:
    command = [python, str(CHILD), path, kind, str(n_threads), str(n_tokens), *map(str, WIDTHS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(names: tuple[str, ...], threads: tuple[int, ...], memories: tuple[int, ...]) -> list[dict[str, Any]]:
    """Milliseconds of a pass, medians over the rounds."""
    kinds = {"own": sys.executable, "llama.cpp": sys.executable}
    if "ATELICO_IK_PYTHON" in os.environ:
        kinds["ik_llama.cpp"] = os.environ["ATELICO_IK_PYTHON"]
    rows = []
    for name in names:
        path = models.model_file(name)
        for n_threads in threads:
            for n_tokens in memories:
                samples: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
                for _ in range(N_ROUNDS):
                    for kind, python in kinds.items():
                        samples[kind].append(_measure(python, kind, path, n_threads, n_tokens))
                for kind, of_kind in samples.items():
                    ms = {key: statistics.median(sample[key] for sample in of_kind) for key in of_kind[0]}
                    rows.append({"model": name, "threads": n_threads, "tokens": n_tokens, "kernels": kind, **ms})
    return rows


def _show(rows: list[dict[str, Any]]) -> None:
    table(
        "Milliseconds of a pass by its rows, of a prompt, and of loading",
        ("model", "threads", "tokens", "kernels", *(f"{width} rows" for width in WIDTHS), "prompt", "load"),
        (
            (
                *(row["model"], str(row["threads"]), str(row["tokens"]), row["kernels"]),
                *(f"{number(row[str(width)], 1)} ({number(row[str(width)] / row['1'])})" for width in WIDTHS),
                *(number(row["prompt"], 0), number(row["load"], 0)),
            )
            for row in rows
        ),
    )


def markdown() -> str | None:
    """The last run as a table; in brackets the pass in rows of its own kernels. None without a run."""
    result = report.load("passes")
    if result is None:
        return None
    machine = result["machine"]
    return report.markdown(
        f"On {machine['processor']}, milliseconds; in brackets how many passes of one row that is.",
        ("model", "threads", "tokens in memory", "kernels", *(f"{width} rows" for width in WIDTHS), "prompt", "load"),
        [
            (
                *(row["model"], str(row["threads"]), str(row["tokens"]), row["kernels"]),
                *(f"{number(row[str(width)], 1)} ({number(row[str(width)] / row['1'])})" for width in WIDTHS),
                *(number(row["prompt"], 0), number(row["load"], 0)),
            )
            for row in result["rows"]
        ],
    )


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run, print the table, return its rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passes", description=__doc__)
    parser.add_argument("--model", action="append", choices=models.ALL, help="only this model; repeatable")
    parser.add_argument("--threads", action="append", type=int, help="only so many threads; repeatable")
    options = parser.parse_args([] if arguments is None else arguments)
    rows = run(tuple(options.model or models.ALL), tuple(options.threads or (1, 2)), (200, 1500))
    _show(rows)
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
