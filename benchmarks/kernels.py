"""What choosing a token from one logits row costs: our kernel, NumPy, and llama.cpp's own sampler chain.

Rows have the sizes of real vocabularies and the shape of real logits. Each repetition runs the three one after
another on the same row, so that a busy machine slows all of them alike. Run with: python -m benchmarks.kernels
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import statistics
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

import llama_cpp
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from atelico._native import Sampler

N_VOCABS = {"SmolLM2": 49_152, "Qwen 3": 151_936, "Gemma 3": 262_144}
N_REPETITIONS = 60
N_ROWS = 4

Row = NDArray[np.float32]
Mask = NDArray[np.int32]
Choose = Callable[[Row, Mask, int], int]


@dataclass(frozen=True)
class Task:
    """What is asked of a sampler."""

    name: str
    masked: bool = False
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0


TASKS = [
    Task("greedy, mask", masked=True),
    Task("greedy"),
    Task("T 0.8", temperature=0.8),
    Task("T 0.8, top_k 40, top_p 0.95, min_p 0.05", temperature=0.8, top_k=40, top_p=0.95, min_p=0.05),
]


def kernel(task: Task, n_vocab: int) -> Choose:
    """atelico._native, the row and the mask as they come."""
    sampler = Sampler(
        n_vocab, temperature=task.temperature, top_k=task.top_k, top_p=task.top_p, min_p=task.min_p, seed=1
    )
    return lambda row, mask, number: sampler.sample(row, mask if task.masked else None, position=number).token


def in_numpy(task: Task, n_vocab: int) -> Choose:
    """The same in NumPy, as well as vector operations allow: argpartition before any sort or exponential."""
    rng = np.random.default_rng(1)

    def choose(row: Row, mask: Mask, _number: int) -> int:
        if task.masked:
            allowed = np.unpackbits(mask.view(np.uint8), count=n_vocab, bitorder="little").view(np.bool_)
            row = np.where(allowed, row, np.float32(-np.inf))
        if task.temperature == 0:
            return int(row.argmax())
        if task.top_k:
            tokens = np.argpartition(row, -task.top_k)[-task.top_k :]
            tokens = tokens[np.argsort(-row[tokens])]
            weights = np.exp((row[tokens] - row[tokens[0]]) / np.float32(task.temperature))
            n_kept = int(np.searchsorted(np.cumsum(weights), task.top_p * weights.sum())) + 1
            weights = weights[:n_kept] * (weights[:n_kept] >= task.min_p)
        else:
            tokens = None
            weights = np.exp((row - row.max()) / np.float32(task.temperature))
        cumulated = np.cumsum(weights)
        index = min(int(np.searchsorted(cumulated, rng.random() * cumulated[-1], side="right")), len(cumulated) - 1)
        return index if tokens is None else int(tokens[index])

    return choose


def in_llama_cpp(task: Task, n_vocab: int) -> Choose:
    """llama.cpp's sampler chain over a candidate array, which is filled from the row first, as llama.cpp does itself.

    llama.cpp takes no bitmask: the candidates it forbids get -inf while the array is filled.
    """
    chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    samplers: list[Any] = []
    if task.temperature == 0:
        samplers.append(llama_cpp.llama_sampler_init_greedy())
    else:
        if task.top_k:
            samplers.append(llama_cpp.llama_sampler_init_top_k(task.top_k))
            samplers.append(llama_cpp.llama_sampler_init_top_p(task.top_p, 1))
            samplers.append(llama_cpp.llama_sampler_init_min_p(task.min_p, 1))
        samplers.append(llama_cpp.llama_sampler_init_temp(task.temperature))
        samplers.append(llama_cpp.llama_sampler_init_dist(1))
    for sampler in samplers:
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    data = (llama_cpp.llama_token_data * n_vocab)()
    fields = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
    ids = np.arange(n_vocab, dtype=np.int32)

    def choose(row: Row, mask: Mask, _number: int) -> int:
        if task.masked:
            allowed = np.unpackbits(mask.view(np.uint8), count=n_vocab, bitorder="little").view(np.bool_)
            row = np.where(allowed, row, np.float32(-np.inf))
        fields["id"] = ids  # the chain reorders the array
        fields["logit"] = row
        array = llama_cpp.llama_token_data_array(data, n_vocab, -1, False)
        llama_cpp.llama_sampler_apply(chain, ctypes.byref(array))
        return int(array.data[array.selected].id)

    weakref.finalize(choose, llama_cpp.llama_sampler_free, chain)
    return choose


CONTENDERS: dict[str, Callable[[Task, int], Choose]] = {
    "kernel": kernel,
    "numpy": in_numpy,
    "llama_cpp": in_llama_cpp,
}


def rows_like_a_model(n_vocab: int) -> list[Row]:
    """Logits with a wide body, a few plausible tokens and one or two likely ones."""
    rng = np.random.default_rng(n_vocab)
    rows = []
    for _ in range(N_ROWS):
        row = rng.normal(0.0, 2.0, n_vocab)
        row[rng.integers(0, n_vocab, 40)] += rng.uniform(4.0, 12.0, 40)
        rows.append(row.astype(np.float32))
    return rows


def measure(task: Task, n_vocab: int) -> dict[str, list[float]]:
    """Milliseconds of every repetition, per contender."""
    rng = np.random.default_rng(0)
    rows = rows_like_a_model(n_vocab)
    mask = rng.integers(-(2**31), 2**31, math.ceil(n_vocab / 32)).astype(np.int32)
    contenders = {name: build(task, n_vocab) for name, build in CONTENDERS.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(N_REPETITIONS):
        row = rows[number % N_ROWS]
        chosen = {}
        for name, choose in contenders.items():
            start = time.perf_counter()
            chosen[name] = choose(row, mask, number)
            times[name].append(1e3 * (time.perf_counter() - start))
        if task.temperature == 0 and len(set(chosen.values())) > 1:
            raise RuntimeError(f"{task.name}: the contenders disagree about the best token: {chosen}")
    return times


def run() -> list[dict[str, Any]]:
    """One dict per vocabulary and task: median ms and interquartile range of each contender, ratios to the kernel."""
    results = []
    for model, n_vocab in N_VOCABS.items():
        for task in TASKS:
            result: dict[str, Any] = {"vocabulary": model, "n_vocab": n_vocab, "task": task.name}
            for name, times in measure(task, n_vocab).items():
                low, middle, high = statistics.quantiles(times, n=4)
                result |= {f"{name}_ms": middle, f"{name}_iqr_ms": high - low}
            for name in list(CONTENDERS)[1:]:
                result[f"{name}_ratio"] = result[f"{name}_ms"] / result["kernel_ms"]
            results.append(result)
    return results


def main() -> list[dict[str, Any]]:
    """Prints the table and returns its rows."""
    results = run()
    title = (
        f"One row to one token, ms (median ± half the interquartile range, {N_REPETITIONS} interleaved repetitions)\n"
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, llama-cpp-python {version('llama-cpp-python')}"
    )
    table = Table(title=title)
    for column in ("vocabulary", "task"):
        table.add_column(column)
    for column in ("kernel", "NumPy", "llama.cpp", "NumPy / kernel", "llama.cpp / kernel"):
        table.add_column(column, justify="right", no_wrap=True)
    for result in results:
        table.add_row(
            f"{result['vocabulary']} {result['n_vocab']:,}",
            result["task"],
            *(f"{result[f'{name}_ms']:.3f} ± {result[f'{name}_iqr_ms'] / 2:.3f}" for name in CONTENDERS),
            *(f"{result[f'{name}_ratio']:.1f}" for name in list(CONTENDERS)[1:]),
        )
    Console().print(table)
    return results


if __name__ == "__main__":
    main()
