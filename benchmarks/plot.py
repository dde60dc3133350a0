"""The picture: speed-up per workload and cost against context length, from the JSON files of the last run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.report import FOLDER, load


def draw() -> Path | None:
    """Draw build/bench/benchmarks.png from what has been measured; None when nothing has."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    speed, context = load("speed"), load("context")
    if speed is None and context is None:
        return None
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(15, 6), layout="constrained")
    if speed is not None:
        _speed_ups(left, [row for row in speed["rows"] if not row["sampled"]])
    if context is not None:
        _context(right, context["rows"])
    path = FOLDER / "benchmarks.png"
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return path


def _speed_ups(axes: Any, rows: list[dict[str, Any]]) -> None:
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    width = 0.8 / max(len(models), 1)
    for i, model in enumerate(models):
        found = {row["workload"]: row["speed_up"] for row in rows if row["model"] == model}
        places = [j + i * width for j in range(len(workloads))]
        axes.bar(places, [found.get(workload) or 0.0 for workload in workloads], width, label=model)
        for row in (row for row in rows if row["model"] == model):
            best = max((value for value in row["rival_speed_ups"].values() if value), default=None)
            if best is not None:
                axes.plot(workloads.index(row["workload"]) + i * width, best, "k_", markersize=14)
    axes.axhline(1.0, color="grey", linewidth=1)
    axes.set_xticks([j + 0.4 - width / 2 for j in range(len(workloads))], workloads, rotation=25, ha="right")
    axes.set_ylabel("speed-up over plain decoding")
    axes.set_title("Speculation per workload (dash: the best rival's own speed-up)")
    axes.legend()


def _context(axes: Any, rows: list[dict[str, Any]]) -> None:
    lengths = [row["length"] for row in rows]
    for name in rows[0]["ms_per_token"]:
        axes.plot(lengths, [row["ms_per_token"][name] for row in rows], "o-", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("tokens of context")
    axes.set_ylabel("milliseconds per token")
    axes.set_title("Cost against context length (SmolLM2 Q4_0)")
    axes.legend()
