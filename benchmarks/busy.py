"""Decoding on a busy machine: each engine with its own defaults, beside 0, 1 and 2 processes that burn a core each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks import models
from benchmarks.contender import Contender, ContenderError
from benchmarks.report import Row, Target, console, median, number, ratio, table
from benchmarks.settings import Settings
from benchmarks.wire import Ask, Load

ENGINES = ("atelico_engine", "llama_server", "llama_cpp_python")
TIMEOUT_S = 60.0
N_BURNERS = (0, 1, 2)


@contextmanager
def burners(n: int) -> Iterator[None]:
    """`n` processes that compute without a pause while the block runs."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def open_defaults(stack: ExitStack, settings: Settings) -> tuple[dict[str, Contender], Ask]:
    """Every engine as its users get it: default threads, default spinning, default priority; and a request."""
    model = models.model_file(models.Q4_K_M)
    contenders = {
        engine: stack.enter_context(
            Contender(engine, Load(model=model, n_ctx=settings.n_ctx), short_spin=engine == "atelico_engine")
        )
        for engine in ENGINES
    }
    with Contender("bare", Load(model=model, n_ctx=512, n_threads=1)) as bare:
        text, tokens = bare.call("render", messages=[{"role": "user", "content": "Tell me a story about a dragon."}])
    ask = Ask(text=text, tokens=tokens, max_tokens=16 if settings.quick else 48, reuse=True)
    for contender in contenders.values():
        contender.generate(ask)
    return contenders, ask


def run(settings: Settings) -> list[Row]:
    """One row per engine. An answer that takes longer than a minute counts as the speed of that minute."""
    speeds: dict[str, dict[int, list[float]]] = {engine: {n: [] for n in N_BURNERS} for engine in ENGINES}
    collapsed: set[tuple[str, int]] = set()
    with ExitStack() as stack:
        contenders, ask = open_defaults(stack, settings)
        for _ in range(1 if settings.quick else 3):
            for n in N_BURNERS:
                with burners(n):
                    for engine, contender in contenders.items():
                        if (engine, n) in collapsed:
                            continue
                        try:
                            speeds[engine][n].append(contender.generate(ask, TIMEOUT_S).tokens_per_second)
                        except ContenderError:
                            collapsed.add((engine, n))
                            speeds[engine][n].append(ask.max_tokens / TIMEOUT_S)
                        console.print(f"[dim]busy: {engine}, {n} other processes[/dim]")
    return [
        {
            "engine": engine,
            "tokens_per_second": {str(n): median(found[n]) for n in N_BURNERS},
            "of_idle": {str(n): ratio(median(found[n]), median(found[0])) for n in N_BURNERS},
            "timed_out_beside": [n for n in N_BURNERS if (engine, n) in collapsed],
        }
        for engine, found in speeds.items()
    ]


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    ours = rows[0]
    found = [
        Target("tokens per second beside one busy process / idle", ours["of_idle"]["1"], 0.6),
        Target("tokens per second beside two busy processes / idle", ours["of_idle"]["2"], 0.4),
    ]
    for rival in rows[1:]:
        for n in ("1", "2"):
            lead = ratio(ours["tokens_per_second"][n], rival["tokens_per_second"][n])
            found.append(Target(f"ours / {rival['engine'].replace('_', '-')}, {n} busy", lead, 1.0))
    return found


def show(rows: list[Row]) -> None:
    """Print the table."""
    table(
        "Tokens per second beside other processes, defaults of each engine (share of idle)",
        ("engine", *(f"{n} busy" for n in N_BURNERS), "no answer within a minute beside"),
        (
            (
                row["engine"].replace("_", "-"),
                *(
                    f"{number(row['tokens_per_second'][str(n)], 1)} ({number(row['of_idle'][str(n)])})"
                    for n in N_BURNERS
                ),
                ", ".join(map(str, row["timed_out_beside"])) or "–",
            )
            for row in rows
        ),
    )
