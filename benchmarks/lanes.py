"""Several characters at once: throughput of lanes against one after the other, with and without speculation."""

from __future__ import annotations

import time
from contextlib import ExitStack

import msgspec

from benchmarks import models
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, median, number, ratio, table
from benchmarks.settings import Settings
from benchmarks.wire import Answer, Ask, Load
from benchmarks.workloads import load_workloads

N_LANES = 4
# The kernels of one row and of several rows round differently; below this lead either of two tokens may come first.
NEAR_TIE = 0.5
WORKLOADS = ("grounded question", "summary", "translation with names", "story")


def run(settings: Settings) -> list[Row]:
    """One row per engine, number of lanes and kind of decoding. Prompts are in memory already, on all sides."""
    model = models.model_file(models.Q4_K_M)
    n_tokens = settings.max_tokens
    rows: list[Row] = []
    with ExitStack() as stack:
        loads = {
            "atelico_engine": {"low_priority": False, "kv_tokens": N_LANES * settings.n_ctx},
            "llama_server": {},
        }
        contenders = {
            engine: stack.enter_context(
                Contender(
                    engine,
                    Load(
                        model=model,
                        n_ctx=settings.n_ctx,
                        n_threads=settings.n_threads,
                        n_lanes=N_LANES,
                        extra=extra,
                    ),
                )
            )
            for engine, extra in loads.items()
        }
        bare = stack.enter_context(Contender("bare", Load(model=model, n_ctx=512, n_threads=1)))
        workloads = load_workloads()
        asks = []
        for name in WORKLOADS:
            workload = workloads[name]
            text, tokens = bare.call("render", messages=workload.messages(workload.prompts[0]))
            asks.append(Ask(text=text, tokens=tokens, max_tokens=n_tokens, reuse=True))
        variants = [("atelico_engine", False), ("atelico_engine", True), ("llama_server", False)]
        for engine, _ in variants[1:]:
            contenders[engine].generate_many(asks)
        runs: dict[tuple[str, bool, str], list[tuple[float, list[Answer]]]] = {}
        for _ in range(1 if settings.quick else 3):
            for engine, speculates in variants:
                asked = [msgspec.structs.replace(ask, speculates=speculates) for ask in asks]
                for mode in ("in turn", "1", "2", "4"):
                    result = _run(contenders[engine], asked, mode)
                    runs.setdefault((engine, speculates, mode), []).append(result)
            console.print("[dim]lanes: one repetition[/dim]")
        texts = {speculates: _compare(contenders["atelico_engine"], asks, speculates) for speculates in (False, True)}
    for (engine, speculates, mode), found in runs.items():
        rows.append(
            {
                "engine": engine,
                "speculates": speculates,
                "lanes": mode,
                "tokens_per_second": median(speed for speed, _ in found),
                "texts": texts[speculates] if engine == "atelico_engine" and mode == "4" else None,
            }
        )
    return rows


def _compare(contender: Contender, asks: list[Ask], speculates: bool) -> dict[str, int]:
    """How many texts of four lanes are those of one plain lane, and how many part from it at a near tie."""
    asks = [msgspec.structs.replace(ask, extra={"logprobs": True, "top_logprobs": 2}) for ask in asks]
    alone = [contender.generate(ask) for ask in asks]
    together = contender.generate_many([msgspec.structs.replace(ask, speculates=speculates) for ask in asks])
    counts = {"same": 0, "near tie": 0, "different": 0}
    for a, b in zip(alone, together, strict=True):
        parted = next((i for i, (x, y) in enumerate(zip(a.pieces, b.pieces, strict=False)) if x != y), None)
        if parted is None:
            counts["same"] += 1
        else:
            counts["near tie" if a.gaps[parted] < NEAR_TIE else "different"] += 1
    return counts


def _run(contender: Contender, asks: list[Ask], mode: str) -> tuple[float, list[Answer]]:
    """Tokens per second of all requests together, and the answers."""
    started = time.perf_counter()
    if mode == "in turn":
        answers = [contender.generate(ask) for ask in asks]
    else:
        answers = contender.generate_many(asks[: int(mode)])
    return sum(answer.n_tokens for answer in answers) / (time.perf_counter() - started), answers


def _speed(rows: list[Row], lanes: str, *, speculates: bool, engine: str = "atelico_engine") -> float | None:
    return next(
        (
            row["tokens_per_second"]
            for row in rows
            if row["engine"] == engine and row["lanes"] == lanes and row["speculates"] is speculates
        ),
        None,
    )


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    texts = [row["texts"] for row in rows if row["texts"] is not None]
    explained = sum(found["same"] + found["near tie"] for found in texts) / sum(sum(found.values()) for found in texts)
    return [
        Target(
            "four lanes at once / four in turn, plain",
            ratio(_speed(rows, "4", speculates=False), _speed(rows, "in turn", speculates=False)),
            1.6,
        ),
        Target(
            "four lanes speculating / four lanes plain",
            ratio(_speed(rows, "4", speculates=True), _speed(rows, "4", speculates=False)),
            0.97,
        ),
        Target("share of texts in four lanes equal to those of one lane, near ties aside", explained, 1.0),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    table(
        "Tokens per second of all lanes together (SmolLM2 Q4_K_M)",
        ("engine", "lanes", "tokens/s", "texts as in one lane"),
        (
            (
                f"{row['engine'].replace('_', '-')}{', speculating' if row['speculates'] else ''}",
                row["lanes"],
                number(row["tokens_per_second"], 1),
                ", ".join(f"{n} {how}" for how, n in (row["texts"] or {}).items() if n) or "–",
            )
            for row in rows
        ),
    )
