"""Memory: what the process holds beyond weights and KV cache, and whether requests or loading make it grow."""

from __future__ import annotations

from pathlib import Path

from atelico.models.gguf_header import read_header
from benchmarks import models
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, number, table
from benchmarks.settings import Settings
from benchmarks.wire import Ask, Load

MB = 1024 * 1024
# What allocators keep for later differs from run to run; growth is what exceeds this.
NOISE_MB = 8.0


def run(settings: Settings) -> list[Row]:
    """One row: megabytes after loading, after requests, and after cycles of loading and unloading."""
    # Q4_1 has no repacked copy of its weights, so that what is mapped are all weights there are.
    model = models.model_file(models.Q4_1)
    n_requests, n_cycles = (40, 4) if settings.quick else (500, 20)
    load = Load(model=model, n_ctx=settings.n_ctx, n_threads=settings.n_threads)
    n_cells = 2 * settings.n_ctx  # the default for kv_tokens
    row: Row = {"n_requests": n_requests, "n_cycles": n_cycles, "kv_mb": kv_bytes(Path(model), n_cells) / MB}
    with Contender("atelico_engine", load) as contender:
        row["rss_loaded_mb"] = _over(contender) / MB
        tokens = _tokens(model)
        marks: dict[int, float] = {}
        for i in range(1, n_requests + 1):
            text, ids = tokens[i % len(tokens)]
            contender.generate(
                Ask(text=text, tokens=ids, max_tokens=4, speculates=True, reuse=True, sampled=True, seed=i)
            )
            if i in (n_requests // 5, n_requests):
                marks[i] = _over(contender) / MB
                console.print(f"[dim]memory: after {i} requests[/dim]")
        row["over_mb"] = marks[n_requests] - row["kv_mb"]
        row["growth_requests_mb"] = marks[n_requests] - marks[n_requests // 5]
        sizes = []
        for _ in range(n_cycles):
            contender.call("load", model=model, n_ctx=settings.n_ctx, n_threads=settings.n_threads)
            contender.generate(Ask(text=tokens[0][0], tokens=tokens[0][1], max_tokens=4))
            contender.call("unload")
            sizes.append(_over(contender) / MB)
        row["growth_cycles_mb"] = sizes[-1] - sizes[min(2, len(sizes) - 2)]
        console.print(f"[dim]memory: after {n_cycles} cycles of loading[/dim]")
    return [row]


def kv_bytes(model: Path, n_cells: int) -> int:
    """The KV cache of a plain transformer in half precision: cells x layers x 2 x heads x width x 2 bytes."""
    values = read_header(model).values
    arch = values["general.architecture"]

    def number_of(key: str) -> int:
        value = values[f"{arch}.{key}"]
        assert isinstance(value, int)
        return value

    width = number_of("embedding_length") // number_of("attention.head_count")
    return n_cells * number_of("block_count") * 2 * number_of("attention.head_count_kv") * width * 2


def _over(contender: Contender) -> float:
    """Bytes of the process that are not mapped weights."""
    sizes = contender.call("memory")
    return float(sizes["rss"] - sizes["model"])


def _tokens(model: str) -> list[tuple[str, list[int]]]:
    with Contender("bare", Load(model=model, n_ctx=512, n_threads=1)) as bare:
        names = ("Orla", "Bodo", "Ilse", "Perrin", "Berta", "Otto", "Wim", "Hanne", "Tinne", "Jory")
        prompts = [[{"role": "user", "content": f"Greet {name}, who enters the inn."}] for name in names]
        return [(text, ids) for text, ids in (bare.call("render", messages=prompt) for prompt in prompts)]


def targets(rows: list[Row]) -> list[Target]:
    """What the row had to show."""
    row = rows[0]
    return [
        Target("MB beyond weights and KV cache", row["over_mb"], 200.0, at_least=False),
        Target(f"MB of growth over {row['n_requests']} requests", row["growth_requests_mb"], NOISE_MB, at_least=False),
        Target(f"MB of growth over {row['n_cycles']} load cycles", row["growth_cycles_mb"], NOISE_MB, at_least=False),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    fields = ("rss_loaded_mb", "kv_mb", "over_mb", "growth_requests_mb", "growth_cycles_mb")
    table(
        "Memory in MB (SmolLM2 Q4_1), mapped weights left out",
        ("", "after loading", "KV cache", "beyond both", "growth, requests", "growth, load cycles"),
        (("ours", *(number(row[field], 1) for field in fields)) for row in rows),
    )
