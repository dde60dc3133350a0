"""Time to the first token when the world's text has been read before: by another character, or before a restart."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import models
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, median, number, ratio, table
from benchmarks.settings import Settings
from benchmarks.wire import Ask, Load
from benchmarks.world import world_text

# About 1,000 tokens.
N_SENTENCES = 45
CHARACTERS = ("You are Bodo, keeper of the inn. Who are you?", "You are Ilse, a spy. What do you want here?")
# Characters differ only after the world.
Messages = list[dict[str, Any]]
GREETING: Messages = [{"role": "user", "content": "Good day."}]


def run(settings: Settings) -> list[Row]:
    """One row per engine. `cold`: the first character of a world; `shared`: the second; `saved`: after a restart."""
    n_worlds = 1 if settings.quick else 3
    model = models.model_file(models.Q4_K_M)
    rows: list[Row] = []
    with Contender("bare", Load(model=model, n_ctx=512, n_threads=1)) as bare:
        for engine in ("atelico_engine", "llama_server"):
            extra = {"low_priority": False} if engine == "atelico_engine" else {}
            load = Load(model=model, n_ctx=settings.n_ctx, n_threads=settings.n_threads, extra=extra)
            row: Row = {"engine": engine, "cold_s": [], "shared_s": [], "n_reused": []}
            with Contender(engine, load) as contender:
                contender.generate(_ask(bare, GREETING))  # whatever the first request warms up
                for world in range(1, n_worlds + 1):
                    cold, shared = (
                        contender.generate(_ask(bare, _messages(world, character))) for character in CHARACTERS
                    )
                    row["cold_s"].append(cold.first_token_s)
                    row["shared_s"].append(shared.first_token_s)
                    row["n_reused"].append(shared.n_reused)
                if engine == "atelico_engine":
                    row |= _saved(contender, bare, n_worlds)
            rows.append(row)
            console.print(f"[dim]prefix: {engine}[/dim]")
    return rows


def _saved(contender: Contender, bare: Contender, n_worlds: int) -> Row:
    """First tokens from a saved prefix in a new process; reading the file counts."""
    row: Row = {"saved_s": [], "load_prefix_s": [], "file_mb": None}
    with tempfile.TemporaryDirectory() as folder:
        for world in range(11, 11 + n_worlds):
            path = Path(folder) / f"{world}.prefix"
            messages = _messages(world, CHARACTERS[0])[:1]
            contender.call("save_prefix", messages=messages, path=str(path))
            contender.restart()
            contender.generate(_ask(bare, GREETING))
            started = time.perf_counter()
            contender.call("load_prefix", path=str(path))
            row["load_prefix_s"].append(time.perf_counter() - started)
            answer = contender.generate(_ask(bare, _messages(world, CHARACTERS[1])))
            row["saved_s"].append(row["load_prefix_s"][-1] + answer.first_token_s)
            row["file_mb"] = round(path.stat().st_size / 1e6, 1)
            row["n_reused_saved"] = answer.n_reused
    return row


def _messages(world: int, character: str) -> Messages:
    return [{"role": "system", "content": world_text(world, N_SENTENCES)}, {"role": "user", "content": character}]


def _ask(bare: Contender, messages: Messages) -> Ask:
    text, tokens = bare.call("render", messages=messages)
    return Ask(text=text, tokens=tokens, max_tokens=4, reuse=True)


def _sooner(row: Row, field: str) -> float | None:
    return ratio(median(row["cold_s"]), median(row.get(field, [])))


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    ours = rows[0]
    return [
        Target("first token, cold / second character with the same world", _sooner(ours, "shared_s"), 15.0),
        Target(
            "first token, cold / saved prefix after a restart, reading the file included", _sooner(ours, "saved_s"), 8.0
        ),
    ]


def show(rows: list[Row]) -> None:
    """Print the table."""
    table(
        "Seconds to the first token, world of about 1,000 tokens (SmolLM2 Q4_K_M)",
        ("engine", "cold", "second character", "sooner", "saved prefix", "sooner", "of that load_prefix", "file MB"),
        (
            (
                row["engine"].replace("_", "-"),
                number(median(row["cold_s"]), 3),
                number(median(row["shared_s"]), 3),
                number(_sooner(row, "shared_s"), 1),
                number(median(row.get("saved_s", [])), 3),
                number(_sooner(row, "saved_s"), 1),
                number(median(row.get("load_prefix_s", [])), 3),
                number(row.get("file_mb"), 1),
            )
            for row in rows
        ),
    )
