"""Twenty requests whose answers must not depend on how they are sent."""

from __future__ import annotations

from typing import Any

from .chat import SMOLLM2

QUESTIONS = ("Name a colour.", "What is rain?", "Greet the king.", "Count to five.", "Who are you?")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}
SHEET = {"type": "json_schema", "json_schema": {"name": "sheet", "schema": SCHEMA}}
VARIANTS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0.9, "seed": 11},
    {"temperature": 0, "speculative": {"proposer": "prompt_lookup"}},
    {"temperature": 0.7, "seed": 5, "response_format": SHEET},
)
# Without cache_prompt every request reads its prompt alone and anew, so that nothing depends on what ran before.
REQUESTS = [
    {
        "model": SMOLLM2,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 10,
        "cache_prompt": False,
        **variant,
    }
    for question in QUESTIONS
    for variant in VARIANTS
]


def essence(answer: dict[str, Any]) -> tuple[str, str, int, int]:
    """What must be the same."""
    choice, usage = answer["choices"][0], answer["usage"]
    return (
        choice["message"]["content"],
        choice["finish_reason"],
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )
