"""What a token costs in a long context: engines from 512 to 8,192 tokens, and the proposers' own cost on the side."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from atelico.speculation.draft import Proposer
from atelico.speculation.registry import Memories, build
from benchmarks import models
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, lowest, median, number, ratio, table
from benchmarks.settings import Settings
from benchmarks.speed import OURS, RIVALS, Entry
from benchmarks.wire import Ask, Load
from benchmarks.world import world_text

ENTRIES: tuple[Entry, ...] = (*OURS, RIVALS[0], RIVALS[2])
# Reads prompts the fastest, and long ones are read by four engines here.
MODEL = models.Q4_0
LENGTHS = (512, 1024, 2048, 4096, 8192)
N_TOKENS = 32
N_REPETITIONS = 3
N_STEPS = 200


def run(settings: Settings) -> list[Row]:
    """One row per context length. Every engine keeps what it has read, so that only decoding is repeated."""
    lengths = LENGTHS[:2] if settings.quick else LENGTHS
    rows: list[Row] = []
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {}
        for entry in ENTRIES:
            if entry.process not in contenders:
                extra = {"low_priority": False} if entry.engine == "atelico_engine" else {}
                load = Load(
                    model=models.model_file(MODEL),
                    n_ctx=lengths[-1],
                    n_threads=settings.n_threads,
                    extra=extra,
                )
                contenders[entry.process] = stack.enter_context(Contender(entry.engine, load))
        bare = contenders["bare "]
        sentences = world_text(1, lengths[-1] // 16).split(". ")
        for length in lengths:
            text, tokens = _prompt(bare, sentences, length - N_TOKENS)
            ask = Ask(text=text, tokens=tokens, max_tokens=N_TOKENS, reuse=True)
            for contender in contenders.values():
                contender.generate(ask)  # reads what is new
            milliseconds: dict[str, list[float]] = {entry.name: [] for entry in ENTRIES}
            for _ in range(1 if settings.quick else N_REPETITIONS):
                for entry in ENTRIES:
                    ask.speculates = entry.speculates
                    answer = contenders[entry.process].generate(ask)
                    if answer.tokens_per_second:
                        milliseconds[entry.name].append(1000 / answer.tokens_per_second)
            rows.append(
                {
                    "length": length,
                    "n_prompt": len(tokens),
                    "ms_per_token": {name: median(found) for name, found in milliseconds.items()},
                    "proposer_us": {name: _proposer_us(propose, tokens) for name, propose in _PROPOSERS.items()},
                }
            )
            console.print(f"[dim]context: {length}[/dim]")
    return rows


def _prompt(bare: Contender, sentences: list[str], n_tokens: int) -> tuple[str, list[int]]:
    """As many whole sentences as fit into `n_tokens`, found by bisection."""
    low, high = 1, len(sentences)
    while low < high:
        middle = (low + high + 1) // 2
        fits = len(bare.call("tokenize", text=". ".join(sentences[:middle]) + ".")) <= n_tokens
        low, high = (middle, high) if fits else (low, middle - 1)
    text = ". ".join(sentences[:low]) + "."
    return text, bare.call("tokenize", text=text)


def _ours(tokens: list[int]) -> float:
    proposers: list[Proposer] = build("auto", Memories(), len(tokens))
    for proposer in proposers:
        proposer.observe(tokens)
    times = []
    for i in range(N_STEPS):
        started = time.perf_counter()
        for proposer in proposers:
            proposer.propose([], 8)
            proposer.observe(tokens[i : i + 1])
        times.append(time.perf_counter() - started)
    return 1e6 * (median(times) or 0.0)


def _llama_cpp_python(tokens: list[int]) -> float:
    lookup = LlamaPromptLookupDecoding(num_pred_tokens=2)
    context = np.asarray([*tokens, *tokens[:N_STEPS]], np.intc)
    ends = range(len(tokens), len(tokens) + 20)
    moments = [time.perf_counter()]
    for end in ends:
        lookup(context[:end])
        moments.append(time.perf_counter())
    return 1e6 * (median(after - before for before, after in pairwise(moments)) or 0.0)


_PROPOSERS: dict[str, Callable[[list[int]], float]] = {"ours": _ours, "llama-cpp-python": _llama_cpp_python}


def _proposer_us(propose: Callable[[list[int]], float], tokens: list[int]) -> float:
    return propose(tokens)


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    first, last = rows[0], rows[-1]
    span = f"{first['length']} to {last['length']} tokens of context"
    return [
        Target(
            f"proposer's cost per token, growth over {span}",
            ratio(last["proposer_us"]["ours"], first["proposer_us"]["ours"]),
            1.5,
            at_least=False,
        ),
        Target(
            f"plain / bare loop at any length, {span}",
            lowest(ratio(row["ms_per_token"]["bare"], row["ms_per_token"]["plain"]) for row in rows),
            0.97,
        ),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    names = [entry.name for entry in ENTRIES]
    table(
        "Milliseconds per token by context length (SmolLM2 Q4_0), and microseconds per token in the proposer",
        ("context", *names, "ours: proposer, us", "llama-cpp-python: proposer, us"),
        (
            (
                str(row["length"]),
                *(number(row["ms_per_token"][name]) for name in names),
                *(number(row["proposer_us"][name], 1) for name in _PROPOSERS),
            )
            for row in rows
        ),
    )
