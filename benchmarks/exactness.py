"""Texts with speculation against plain ones, over 10,000 tokens per model, proposer and mode.

One lane, nothing kept between requests, no governor: every draft is verified, wrong ones too. Besides the text, the
log-probabilities of all tokens are compared. Takes hours. Run with: python -m benchmarks.exactness, or make exactness
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

from tests.support.prompts import PROMPTS

from atelico import Engine, EngineConfig
from atelico.protocol.response import ChatCompletion
from benchmarks import asking, models, report
from benchmarks.report import console, number, table
from benchmarks.settings import Settings
from benchmarks.world import sentences

NAMES = (*models.ALL, models.HEAD)
# With the draft length of each: passes of a network cost as much as what they draft for, and a recurrent memory goes
# back by four tokens at most.
_LOOKED_UP = {"prompt_lookup": 16, "lookahead": 16, "prediction": 16}
_PROPOSERS = {name: {**_LOOKED_UP, "draft_model": 4} for name in models.ALL} | {models.HEAD: {**_LOOKED_UP, "mtp": 4}}
# No small model has a smaller one with its vocabulary, so another quantisation drafts: mostly right, never faster.
_DRAFTERS = {
    models.Q4_1: models.Q4_0,
    models.Q4_K_M: models.Q4_0,
    models.Q4_0: models.Q4_1,
    models.GEMMA: models.GEMMA,
}
_MODES: dict[str, dict[str, Any]] = {"greedy": {"temperature": 0}, "seeded": {"temperature": 0.8}}
N_TOKENS = 10_000
_PER_TEXT = 128
_MAX_LOGPROB_DIFFERENCE = 1e-3
_TIMEOUT_S = 1800
_COLUMNS = (
    *("model", "proposer", "k", "mode", "tokens", "texts", "proposed", "accepted", "decoded again", "that differ"),
    *("log-probabilities differ by", "s"),
)


@dataclass
class Cell:
    """The texts of one model, proposer and mode against plain ones.

    Attributes:
        tokens: of the plain texts.
        differences: texts that are not the plain one.
        near_ties: rows decoded again on their own.
        logprobs: the largest difference of a log-probability, up to the first token that differs.
    """

    model: str
    proposer: str
    k: int
    mode: str
    tokens: int = 0
    texts: int = 0
    differences: int = 0
    near_ties: int = 0
    proposed: int = 0
    accepted: int = 0
    logprobs: float = 0.0
    seconds: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every text was the plain one, and every log-probability."""
        return not self.differences and self.logprobs <= _MAX_LOGPROB_DIFFERENCE

    def count(self, plain: ChatCompletion, drafted: ChatCompletion, seconds: float) -> None:
        """Add one text."""
        speculation = drafted.atelico.speculation
        assert speculation.active, speculation.reason
        self.texts += 1
        self.tokens += plain.usage.completion_tokens
        self.differences += drafted.choices[0].message.content != plain.choices[0].message.content
        self.near_ties += speculation.near_ties
        self.proposed += speculation.proposed
        self.accepted += speculation.accepted
        self.logprobs = max(self.logprobs, _largest_difference(plain, drafted))
        self.seconds += seconds


def _largest_difference(plain: ChatCompletion, drafted: ChatCompletion) -> float:
    largest = 0.0
    ours, theirs = drafted.choices[0].logprobs, plain.choices[0].logprobs
    assert ours is not None and theirs is not None
    for one, other in zip(ours.content or (), theirs.content or (), strict=False):
        if one.token != other.token:
            break
        largest = max(largest, abs(one.logprob - other.logprob))
    return largest


def _questions() -> Iterator[str]:
    """Prompts that are worth drafting for, without end: those of the exactness tests, then texts to repeat."""
    yield from PROMPTS.values()
    seed = 0
    while True:
        yield f"Repeat word for word: {' '.join(sentences(seed, 4))}"
        seed += 1


def measure(name: str, n_tokens: int) -> list[Cell]:
    """One cell per proposer and mode, over `n_tokens` plain tokens each."""
    path = models.model_file(name)
    drafters = {path: models.model_file(_DRAFTERS[name])} if name in _DRAFTERS else {}
    found: list[Cell] = []
    with Engine(EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0, drafters=drafters)) as engine:
        for mode, options in _MODES.items():
            cells = [Cell(name, proposer, k, mode) for proposer, k in _PROPOSERS[name].items()]
            for seed, question in enumerate(_questions(), 1):
                body: dict[str, Any] = {"model": path, "messages": [{"role": "user", "content": question}], **options}
                body |= {"seed": seed, "max_tokens": _PER_TEXT, "cache_prompt": False, "logprobs": True}
                _compare(engine, body, cells)
                if seed % 10 == 0:
                    console.print(f"[dim]{name}, {mode}: {cells[0].tokens} of {n_tokens} tokens[/dim]")
                if cells[0].tokens >= n_tokens:
                    break
            found += cells
    return found


def _compare(engine: Engine, body: dict[str, Any], cells: Sequence[Cell]) -> None:
    """Ask once plainly and once for every cell."""
    plain = engine.chat_completion(body, _TIMEOUT_S)
    for cell in cells:
        fields = asking.fields(cell.proposer, cell.k, plain.choices[0].message.content or "")
        started = time.perf_counter()
        drafted = engine.chat_completion({**body, **fields, "atelico": {"governor": "off"}}, _TIMEOUT_S)
        cell.count(plain, drafted, time.perf_counter() - started)


def show(cells: Sequence[Cell]) -> None:
    """Print the table."""
    table("Texts with speculation against plain ones", _COLUMNS, (_shown(asdict(cell)) for cell in cells))


def _shown(row: report.Row) -> list[str]:
    """A cell in the order of `_COLUMNS`."""
    counts = [f"{row[name]:,}" for name in ("tokens", "texts", "proposed", "accepted", "near_ties", "differences")]
    logprobs = f"{row['logprobs']:.0e}" if row["logprobs"] else "0"
    return [row["model"], row["proposer"], str(row["k"]), row["mode"], *counts, logprobs, number(row["seconds"], 0)]


def markdown() -> str | None:
    """The last runs of all models as one table; None without any."""
    results = [result for name in NAMES if (result := report.load(_file(name))) is not None]
    if not results:
        return None
    machine = results[0]["machine"]
    return report.markdown(
        f"On {machine['processor']}, llama-cpp-python {machine['versions']['llama-cpp-python']}.",
        _COLUMNS[:-1],
        [_shown(row)[:-1] for result in results for row in result["rows"]],
    )


def _file(name: str) -> str:
    return f"exactness-{name.replace(' ', '-')}"


def main(arguments: list[str] | None = None) -> None:
    """Run, print the tables, write one JSON file per model. Exits with 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exactness", description=__doc__)
    parser.add_argument("--tokens", type=int, default=N_TOKENS, help="plain tokens per model, proposer and mode")
    parser.add_argument("--model", action="append", choices=NAMES, help="only this model; repeatable")
    options = parser.parse_args([] if arguments is None else arguments)
    all_exact = True
    for name in options.model or NAMES:
        started = time.perf_counter()
        cells = measure(name, options.tokens)
        show(cells)
        settings = Settings(n_threads=1, max_tokens=_PER_TEXT, n_ctx=1024)
        report.save(_file(name), settings, [asdict(c) for c in cells], [], time.perf_counter() - started)
        all_exact &= all(cell.exact for cell in cells)
    if not all_exact:
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
