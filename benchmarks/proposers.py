"""What each proposer brings on each workload: accepted drafts, tokens per pass, and speed against plain decoding.

Without the governor, every draft of up to `k` tokens is verified, which shows the proposer; with it, only those that it
expects to pay, which is what users get.
"""

from __future__ import annotations

from contextlib import ExitStack

from msgspec.structs import replace

from benchmarks import asking, models, report
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, lowest, median, number, table
from benchmarks.settings import Settings
from benchmarks.speed import Entry, asks_of, open_entries
from benchmarks.wire import Answer, Ask, Load
from benchmarks.workloads import load_workloads

PROPOSERS = ("prompt_lookup", "lookahead", "auto", "prediction", "draft_model")
_K = 5
_COLUMNS = ("accepted", "tokens per pass", "speed-up, all drafts", "speed-up, governed")


def _rows(model: str, workload: str, asks: list[Ask], engine: Contender, drafting: Contender) -> list[Row]:
    """One row per proposer; for each request they take their turn right after plain decoding.

    `drafting`: the engine that has a draft model, which `auto` would take.
    """
    plain: list[Answer] = []
    free: dict[str, list[Answer]] = {proposer: [] for proposer in PROPOSERS}
    governed: dict[str, list[Answer]] = {proposer: [] for proposer in PROPOSERS}
    for ask in asks:
        plain.append(engine.generate(ask))
        for proposer in PROPOSERS:
            fields = asking.fields(proposer, _K, plain[-1].text)
            chosen = drafting if proposer == "draft_model" else engine
            free[proposer].append(chosen.generate(replace(ask, extra={**fields, "atelico": {"governor": "off"}})))
            governed[proposer].append(chosen.generate(replace(ask, extra=fields)))
    return [
        {"model": model, "workload": workload, "proposer": proposer} | _cell(plain, free[proposer], governed[proposer])
        for proposer in PROPOSERS
    ]


def _cell(plain: list[Answer], free: list[Answer], governed: list[Answer]) -> Row:
    proposed, accepted = sum(a.n_proposed for a in free), sum(a.n_accepted for a in free)
    n_tokens = sum(a.n_tokens for a in free)
    return {
        "accepted": accepted / proposed if proposed else None,
        "tokens per pass": n_tokens / max(n_tokens - accepted, 1),
        "speed-up, all drafts": _speed_up(free, plain),
        "speed-up, governed": _speed_up(governed, plain),
    }


def _speed_up(answers: list[Answer], plain: list[Answer]) -> float | None:
    pairs = [(a, p) for a, p in zip(answers, plain, strict=True) if p.tokens_per_second > 0]
    return median(a.tokens_per_second / p.tokens_per_second for a, p in pairs)


def run(settings: Settings) -> list[Row]:
    """One row per model, workload and proposer."""
    workloads = list(load_workloads().values())
    if settings.quick:
        workloads = [workload for workload in workloads if workload.name in ("grounded question", "character JSON")]
    entries = (Entry("bare", "bare"), Entry("plain", "atelico_engine"))
    rows: list[Row] = []
    for model in models.MAIN[:1] if settings.quick else models.MAIN:
        path = models.model_file(model)
        with ExitStack() as stack:
            contenders = open_entries(stack, entries, path, settings)
            # No small model has a smaller one with its vocabulary, so the same file drafts: right, and as dear.
            extra = {"low_priority": False, "drafters": {path: path}}
            load = Load(model=path, n_ctx=settings.n_ctx, n_threads=settings.n_threads, extra=extra)
            drafting = stack.enter_context(Contender("atelico_engine", load))
            for workload in workloads:
                asks = asks_of(workload, contenders["bare "], settings)
                rows += _rows(model, workload.name, asks, contenders["atelico_engine "], drafting)
                console.print(f"[dim]proposers: {model}, {workload.name}[/dim]")
    return rows


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show: the governor never loses."""
    worst = lowest(row["speed-up, governed"] for row in rows)
    return [Target("speculating / plain, worst model, workload and proposer", worst, 0.97)]


def show(rows: list[Row]) -> None:
    """Print one table per model."""
    for model in dict.fromkeys(row["model"] for row in rows):
        of_model = [row for row in rows if row["model"] == model]
        cells = ((r["workload"], r["proposer"], *(number(r[column]) for column in _COLUMNS)) for r in of_model)
        table(f"{model}: k = {_K}", ("workload", "proposer", *_COLUMNS), cells)


def markdown() -> str | None:
    """The last run as one table: per workload and proposer, SmolLM2 and Gemma side by side. None without one."""
    result = report.load("proposers")
    if result is None:
        return None
    by_key = {(row["workload"], row["proposer"], row["model"]): row for row in result["rows"]}
    names = list(dict.fromkeys(row["model"] for row in result["rows"]))
    machine, settings = result["machine"], result["settings"]
    introduction = (
        f"`python -m benchmarks proposers` on {machine['processor']}, {settings['n_threads']} thread(s), greedy, "
        f'k = {_K}; in each cell {" / ".join(names)}. "All drafts" is without the governor, "governed" with it. '
        "The draft model is the model itself, so the governor never asks it."
    )
    rows = [
        (
            workload,
            f"`{proposer}`",
            *(
                " / ".join(number(by_key.get((workload, proposer, name), {}).get(column)) for name in names)
                for column in _COLUMNS
            ),
        )
        for workload, proposer in dict.fromkeys((row["workload"], row["proposer"]) for row in result["rows"])
    ]
    return report.markdown(introduction, ("workload", "proposer", *_COLUMNS), rows)
