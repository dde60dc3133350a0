"""`make demo`: the main job on SmolLM2-135M-Instruct, in under a minute. Ends with 1 where something does not hold.

1. A grounded question, answered with prompt lookup and streamed.
2. A character sheet under a JSON schema, with speculation, validated.
3. Both with and without speculation: tokens per second, acceptance, and whether the texts are the same.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from rich.console import Console
from rich.table import Table

from atelico import Atelico, AtelicoError, EngineConfig
from atelico.protocol.response import ChatCompletion

MODEL = "SmolLM2-135M-Instruct"
SPECULATIVE = {"proposer": "prompt_lookup", "k": 5}
RUNS = 3
# One request at a time and nothing kept from former ones, so that every run finds the memory in the same state: where
# tokens lie in memory decides how the kernels round, and two nearly equal candidates may then change places.
ALONE = EngineConfig(n_lanes=1, n_kept=0)

HARBOUR = """\
Rules of Saltmere harbour.
1. A ship may enter the inner harbour only after the lighthouse keeper has shown a green lantern.
2. Every captain pays a mooring fee of three silver coins per night, and one more for each cannon on deck."""

SHEET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "class": {"enum": ["fighter", "mage", "rogue", "healer"]},
        "level": {"type": "integer", "minimum": 1, "maximum": 20},
        "attributes": {
            "type": "object",
            "properties": {
                "strength": {"type": "integer", "minimum": 1, "maximum": 20},
                "wisdom": {"type": "integer", "minimum": 1, "maximum": 20},
            },
            "required": ["strength", "wisdom"],
            "additionalProperties": False,
        },
        "motto": {"type": "string", "maxLength": 40},
    },
    "required": ["name", "class", "level", "attributes", "motto"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Task:
    """A request of the demo, without its `speculative` field."""

    name: str
    fields: dict[str, Any]


GROUNDED = Task(
    "grounded answer",
    {
        "messages": [
            {"role": "system", "content": "Answer with the exact words of the document."},
            {"role": "user", "content": f"{HARBOUR}\n\nQuote the rules."},
        ],
        "max_tokens": 80,
        "stop": "\n\n",
    },
)
CHARACTER = Task(
    "character sheet",
    {
        "messages": [
            {"role": "user", "content": "Name: Mirra. Class: rogue. She guards a lighthouse. Write her sheet as JSON."}
        ],
        "max_tokens": 120,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "character", "schema": SHEET, "strict": True},
        },
    },
)


@dataclass(frozen=True)
class Comparison:
    """One task run plainly and with speculation, greedy, several times each."""

    task: Task
    plain: list[ChatCompletion]
    drafted: list[ChatCompletion]

    @property
    def same_text(self) -> bool:
        """Whether every run gave the same text."""
        return len({text_of(answer) for answer in (*self.plain, *self.drafted)}) == 1


def text_of(answer: ChatCompletion) -> str:
    """The text of the first choice."""
    return answer.choices[0].message.content or ""


def ask(client: Atelico, task: Task, speculative: dict[str, Any] | None) -> ChatCompletion:
    """The greedy answer to `task`."""
    answer: ChatCompletion = client.chat.completions.create(
        model=MODEL, temperature=0, extra_body={"speculative": speculative, "cache_prompt": False}, **task.fields
    )
    return answer


def show_grounded(client: Atelico, console: Console) -> None:
    """Stream the grounded answer."""
    console.rule("1. a grounded answer, streamed with prompt lookup", align="left")
    console.print(HARBOUR, style="dim", highlight=False)
    console.print()
    with client.chat.completions.create(
        model=MODEL,
        temperature=0,
        stream=True,
        extra_body={"speculative": SPECULATIVE, "cache_prompt": False},
        **GROUNDED.fields,
    ) as stream:
        for chunk in stream:
            for choice in chunk.choices:
                sys.stdout.write(choice.delta.content or "")
                sys.stdout.flush()
            if chunk.atelico is not None:
                drafts = chunk.atelico.speculation
                console.print(f"\n\n{drafts.accepted} of {drafts.proposed} draft tokens accepted", style="dim")


def show_character(client: Atelico, console: Console) -> bool:
    """Print the character sheet; False where it does not follow its schema."""
    console.rule("2. a character sheet under a JSON schema, with speculation", align="left")
    answer = ask(client, CHARACTER, SPECULATIVE)
    try:
        sheet = json.loads(text_of(answer))
        Draft202012Validator(SHEET).validate(sheet)
    except (ValueError, ValidationError) as error:
        console.print(f"The answer does not follow its schema: {error}\n{text_of(answer)}", style="red", markup=False)
        return False
    console.print_json(data=sheet)
    sources = ", ".join(f"{n} from {name}" for name, n in answer.atelico.speculation.sources.items())
    console.print(f"valid; accepted draft tokens: {sources or 'none'}", style="dim", highlight=False)
    return True


def compare(client: Atelico, task: Task) -> Comparison:
    """Run `task` both ways in turn, so that what else the machine does falls on both."""
    plain, drafted = [], []
    for _ in range(RUNS):
        plain.append(ask(client, task, None))
        drafted.append(ask(client, task, SPECULATIVE))
    return Comparison(task, plain, drafted)


def speed(answers: Sequence[ChatCompletion]) -> float:
    """The median of the runs, in decoded tokens per second."""
    return statistics.median(answer.atelico.timings.tokens_per_second or 0.0 for answer in answers)


def table(comparisons: Sequence[Comparison]) -> Table:
    """Plain against speculative."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("task", "tokens", "plain t/s", "spec. t/s", "ratio", "acceptance", "same text"):
        made.add_column(column, justify="left" if column == "task" else "right")
    for comparison in comparisons:
        plain, drafted = speed(comparison.plain), speed(comparison.drafted)
        rate = comparison.drafted[0].atelico.speculation.acceptance_rate
        made.add_row(
            comparison.task.name,
            str(comparison.plain[0].usage.completion_tokens),
            f"{plain:.1f}",
            f"{drafted:.1f}",
            f"{drafted / plain:.2f}" if plain else "-",
            f"{rate:.0%}" if rate is not None else "-",
            "yes" if comparison.same_text else "no",
        )
    return made


def main() -> int:
    """The exit code."""
    console = Console()
    try:
        with Atelico(ALONE) as client:
            show_grounded(client, console)
            valid = show_character(client, console)
            console.rule("3. plain against speculative decoding", align="left")
            comparisons = [compare(client, task) for task in (GROUNDED, CHARACTER)]
    except AtelicoError as error:
        Console(stderr=True).print(f"demo: {error}", style="red", markup=False)
        return 1
    console.print(table(comparisons))
    console.print(
        f"{MODEL}, {comparisons[0].plain[0].atelico.device}, greedy, k={SPECULATIVE['k']}, median of {RUNS} runs",
        style="dim",
    )
    return 0 if valid and all(comparison.same_text for comparison in comparisons) else 1


if __name__ == "__main__":
    sys.exit(main())
