"""Tokens per second: workloads x models x engines, each prompt by every engine right after the other.

Prompts are the same token ids, and every engine reads its prompt anew. What is compared is decoding, from the first to
the last token; JSON has its own benchmark.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from msgspec.structs import replace

from benchmarks import models
from benchmarks.contender import Contender
from benchmarks.report import Row, Target, console, geometric_mean, lowest, median, number, ratio, spread, table
from benchmarks.settings import Settings
from benchmarks.wire import Answer, Ask, Load
from benchmarks.workloads import Workload, load_workloads


@dataclass(frozen=True)
class Entry:
    """A way to answer: an engine, its own speculation, whether the request asks for speculation."""

    name: str
    engine: str
    draft: str | None = None
    speculates: bool = False

    @property
    def process(self) -> str:
        """Entries with the same process share it."""
        return f"{self.engine} {self.draft or ''}"


OURS = (
    Entry("bare", "bare"),
    Entry("plain", "atelico_engine"),
    Entry("speculating", "atelico_engine", speculates=True),
)
RIVALS = (
    Entry("llama-cpp-python", "llama_cpp_python"),
    Entry("llama-cpp-python lookup", "llama_cpp_python", "pld"),
    Entry("llama-server", "llama_server"),
    Entry("llama-server ngram-mod", "llama_server", "ngram_mod"),
    Entry("llama-server ngram-cache", "llama_server", "ngram_cache"),
)
# A rival's speculation and what it is compared with: its own plain decoding.
OWN_SPEED_UPS = {
    "llama-cpp-python lookup": "llama-cpp-python",
    "llama-server ngram-mod": "llama-server",
    "llama-server ngram-cache": "llama-server",
}
SAMPLED_WORKLOADS = ("grounded question", "story")


def open_entries(stack: ExitStack, entries: tuple[Entry, ...], model: str, settings: Settings) -> dict[str, Contender]:
    """The processes of `entries`, by Entry.process, with the model loaded and warmed up by a first request."""
    contenders: dict[str, Contender] = {}
    for entry in entries:
        if entry.process not in contenders:
            # Equal terms: our lower priority is for games, and would only measure the neighbours here.
            extra = {"low_priority": False} if entry.engine == "atelico_engine" else {}
            load = Load(model=model, n_ctx=settings.n_ctx, n_threads=settings.n_threads, draft=entry.draft, extra=extra)
            contenders[entry.process] = stack.enter_context(Contender(entry.engine, load))
    bare = contenders["bare "]
    tokens = bare.call("tokenize", text="Once upon a time")
    for contender in contenders.values():
        contender.generate(Ask(text="Once upon a time", tokens=tokens, max_tokens=8))
    return contenders


def asks_of(workload: Workload, bare: Contender, settings: Settings) -> list[Ask]:
    """The first requests of a workload, rendered by the model's chat template."""
    asks = []
    for prompt in workload.prompts[: settings.n_prompts]:
        text, tokens = bare.call("render", messages=workload.messages(prompt))
        limit = workload.max_tokens or settings.max_tokens
        asks.append(Ask(text=text, tokens=tokens, max_tokens=limit, schema=workload.json_schema()))
    return asks


def measure(
    entries: tuple[Entry, ...], contenders: dict[str, Contender], asks: list[Ask], *, sampled: bool
) -> dict[str, list[Answer]]:
    """The answers of every entry to every request; of each request all entries take their turn, in rotating order."""
    answers: dict[str, list[Answer]] = {entry.name: [] for entry in entries}
    for i, ask in enumerate(asks):
        shift = i % len(entries)
        for entry in entries[shift:] + entries[:shift]:
            asked = replace(ask, sampled=sampled, speculates=entry.speculates)
            answers[entry.name].append(contenders[entry.process].generate(asked))
    return answers


def paired_ratio(answers: dict[str, list[Answer]], name: str, base: str) -> float | None:
    """The median over requests of one entry's speed relative to another's for the same request."""
    if name not in answers or base not in answers:
        return None
    pairs = zip(answers[name], answers[base], strict=True)
    return median(a.tokens_per_second / b.tokens_per_second for a, b in pairs if b.tokens_per_second > 0)


def row_of(answers: dict[str, list[Answer]]) -> Row:
    """Medians, spread and ratios of one cell of the table."""
    speeds = {name: [answer.tokens_per_second for answer in found] for name, found in answers.items()}
    speculating = answers.get("speculating", [])
    proposed = sum(answer.n_proposed for answer in speculating)
    return {
        "n_requests": len(next(iter(answers.values()))),
        "tokens_per_second": {name: median(values) for name, values in speeds.items()},
        "spread": {name: spread(values) for name, values in speeds.items()},
        "first_token_s": {name: median(answer.first_token_s for answer in found) for name, found in answers.items()},
        "plain_to_bare": paired_ratio(answers, "plain", "bare"),
        "speed_up": paired_ratio(answers, "speculating", "plain"),
        "rival_speed_ups": {
            name: paired_ratio(answers, name, base) for name, base in OWN_SPEED_UPS.items() if name in answers
        },
        "acceptance": sum(answer.n_accepted for answer in speculating) / proposed if proposed else None,
        "same_text": sum(a.text == b.text for a, b in zip(speculating, answers.get("plain", []), strict=True)),
    }


def run(settings: Settings) -> list[Row]:
    """One row per model, workload and way of sampling."""
    workloads = [workload for workload in load_workloads().values() if workload.schema is None]
    if settings.quick:
        workloads = [workload for workload in workloads if workload.name in ("grounded question", "story")]
    rows: list[Row] = []
    for model in (models.Q4_K_M,) if settings.quick else models.ALL:
        entries = OURS + RIVALS if model in models.MAIN else OURS
        with ExitStack() as stack:
            contenders = open_entries(stack, entries, models.model_file(model), settings)
            for workload in workloads:
                asks = asks_of(workload, contenders["bare "], settings)
                for sampled in (False, True):
                    if sampled and (workload.name not in SAMPLED_WORKLOADS or model not in models.MAIN):
                        continue
                    answers = measure(OURS if sampled else entries, contenders, asks, sampled=sampled)
                    rows.append(
                        {"model": model, "workload": workload.name, "grounded": workload.grounded, "sampled": sampled}
                        | row_of(answers)
                    )
                    console.print(f"[dim]speed: {model}, {workload.name}{', T 0.8' if sampled else ''}[/dim]")
    return rows


def targets(rows: list[Row]) -> list[Target]:
    """What the rows had to show."""
    greedy = [row for row in rows if not row["sampled"]]
    grounded = [row for row in greedy if row["grounded"]]
    found = [
        Target(f"plain / bare llama_decode loop, greedy, {model}", _mean(greedy, model, "plain_to_bare"), 0.97)
        for model in _models(greedy)
    ]
    found += [
        Target(
            f"plain / bare loop, T 0.8 with top_k, top_p, min_p, {model}", _mean(sampled, model, "plain_to_bare"), 0.97
        )
        for sampled in [[row for row in rows if row["sampled"]]]
        for model in _models(sampled)
    ]
    found.append(Target("speculating / plain, worst model and workload", lowest(r["speed_up"] for r in rows), 0.97))
    main = [row for row in grounded if row["model"] in models.MAIN]
    means = [
        geometric_mean(r["speed_up"] for r in main if r["model"] == model and r["speed_up"]) for model in _models(main)
    ]
    found += [
        Target(f"speed-up, geometric mean over grounded workloads, {model}", mean, 1.5)
        for model, mean in zip(_models(main), means, strict=True)
    ]
    leads = [
        ratio(row["speed_up"], max((v for v in row["rival_speed_ups"].values() if v), default=None)) for row in main
    ]
    found.append(Target("our speed-up / best rival's own, worst grounded workload", lowest(leads), 1.0))
    return found


def _models(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["model"] for row in rows))


def _mean(rows: list[Row], model: str, field: str) -> float | None:
    return geometric_mean(row[field] for row in rows if row["model"] == model and row[field])


def show(rows: list[Row]) -> None:
    """Print the tables."""
    for model in _models(rows):
        of_model = [row for row in rows if row["model"] == model]
        names = list(of_model[0]["tokens_per_second"])
        table(
            f"{model}: tokens per second (median)",
            ("workload", *names),
            (
                (
                    row["workload"] + (", T 0.8" if row["sampled"] else ""),
                    *(number(row["tokens_per_second"].get(name), 1) for name in names),
                )
                for row in of_model
            ),
        )
        table(
            f"{model}: ratios (median over requests) and speed-ups of each engine's own speculation",
            ("workload", "plain / bare", "speculating / plain", *(n for n in OWN_SPEED_UPS if n in names), "accepted"),
            (
                (
                    row["workload"] + (", T 0.8" if row["sampled"] else ""),
                    number(row["plain_to_bare"]),
                    number(row["speed_up"]),
                    *(number(row["rival_speed_ups"].get(name)) for name in OWN_SPEED_UPS if name in names),
                    number(row["acceptance"]),
                )
                for row in of_model
            ),
        )
