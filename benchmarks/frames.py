"""A 60 Hz loop with 6 ms of work per frame beside a generation: how many frames come late, and how fast tokens come."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import msgspec

from benchmarks.busy import ENGINES, open_defaults
from benchmarks.contender import Contender, ContenderError
from benchmarks.report import Row, Target, console, median, number, table
from benchmarks.settings import Settings
from benchmarks.wire import Answer, Ask

FRAME_S = 1 / 60
WORK_S = 0.006
LATE_S = 0.020


def frames(still_running: Callable[[], bool], max_s: float) -> list[float]:
    """Run the loop while `still_running` and no longer than `max_s`; the lengths of its frames in seconds."""
    lengths: list[float] = []
    begun = previous = time.perf_counter()
    while still_running() and previous - begun < max_s:
        worked = time.thread_time()
        while time.thread_time() - worked < WORK_S:
            pass
        left = previous + FRAME_S - time.perf_counter()
        if left > 0:
            time.sleep(left)
        now = time.perf_counter()
        lengths.append(now - previous)
        previous = now
    return lengths


def share_late(lengths: list[float]) -> float:
    """The share of frames that took longer than 20 ms."""
    return sum(length > LATE_S for length in lengths) / max(len(lengths), 1)


def run(settings: Settings) -> list[Row]:
    """One row for the loop alone, one per engine with its defaults, and one for ours with a frame budget of 8 ms."""
    seconds = 2.0 if settings.quick else 6.0
    n_repetitions = 1 if settings.quick else 2
    shares: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        contenders, ask = open_defaults(stack, settings)
        for _ in range(n_repetitions):
            shares.setdefault("no generation", []).append(share_late(frames(lambda: True, seconds)))
            for engine in ENGINES:
                _beside(contenders[engine], engine, ask, seconds, shares, speeds)
            paced = msgspec.structs.replace(ask, extra={"atelico": {"frame_budget_ms": 8.0}})
            _beside(contenders["atelico_engine"], "atelico_engine, budget 8 ms", paced, seconds, shares, speeds)
            console.print("[dim]frames: one repetition[/dim]")
    return [
        {
            "beside": name,
            "late": median(found),
            "late_all": found,
            "tokens_per_second": median(speeds.get(name, [])),
        }
        for name, found in shares.items()
    ]


def _beside(
    contender: Contender,
    name: str,
    ask: Ask,
    seconds: float,
    shares: dict[str, list[float]],
    speeds: dict[str, list[float]],
) -> None:
    """Generate answer after answer for `seconds` while the loop runs."""
    lengths: list[float] = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        contender.post("generate", **msgspec.to_builtins(ask))
        lengths += frames(lambda: not contender.ready, 60.0)
        try:
            answer = msgspec.convert(contender.receive(60.0), Answer)
            speeds.setdefault(name, []).append(answer.tokens_per_second)
        except ContenderError:
            speeds.setdefault(name, []).append(ask.max_tokens / 60.0)
            break
    shares.setdefault(name, []).append(share_late(lengths))


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    late = {row["beside"]: row["late"] for row in rows}
    more = 100 * (late["atelico_engine"] - late["no generation"])
    return [
        Target("late frames beside our generation, percentage points more than without", more, 1.0, at_least=False),
        Target(
            "late frames beside our generation, percentage points more than beside llama-server's",
            100 * (late["atelico_engine"] - late["llama_server"]),
            0.0,
            at_least=False,
        ),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    table(
        "A 60 Hz loop with 6 ms of work per frame, defaults of each engine",
        ("beside", "frames later than 20 ms, %", "tokens/s"),
        (
            (row["beside"].replace("_", "-"), number(100 * row["late"]), number(row["tokens_per_second"], 1))
            for row in rows
        ),
    )
