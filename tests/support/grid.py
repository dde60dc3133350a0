"""What the exactness tests and benchmarks/exactness.py compare: models, proposers, draft lengths, seeds, schemas."""

from __future__ import annotations

from typing import Any

from .chat import GEMMA, SMOLLM2

MODELS = (SMOLLM2, GEMMA)
PROPOSERS = ("prompt_lookup", "lookahead")
LENGTHS = (1, 2, 5, 8, 16)
SEEDS = (1, 2, 3, 4, 5)
N_TOKENS, N_JSON_TOKENS = 128, 160

TEXT_MODES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    **{f"seed {seed}": {"temperature": 0.8, "seed": seed} for seed in SEEDS},
}
JSON_MODES = {name: TEXT_MODES[name] for name in ("greedy", "seed 1", "seed 2")}

# By name: a prompt, and the schema of its answer.
SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "character": (
        "Describe the guard captain of a mountain town as JSON.",
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 20},
                "class": {"enum": ["warrior", "mage", "thief", "priest"]},
                "mood": {"enum": ["calm", "angry", "tired"]},
                "motto": {"type": "string", "maxLength": 40},
            },
            "required": ["name", "class", "mood", "motto"],
            "additionalProperties": False,
        },
    ),
    "shop": (
        "List what the village shop sells as JSON, with prices in silver coins.",
        {
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 3,
                    "items": {
                        "type": "object",
                        "properties": {
                            "item": {"type": "string", "maxLength": 16},
                            "price": {"type": "integer", "minimum": 1, "maximum": 99},
                        },
                        "required": ["item", "price"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["items"],
            "additionalProperties": False,
        },
    ),
    "quest": (
        "Write a short quest as JSON: find the key of the old mill.",
        {
            "type": "object",
            "properties": {
                "title": {"type": "string", "maxLength": 30},
                "giver": {"type": ["string", "null"], "maxLength": 20},
                "reward": {"type": "integer", "minimum": 0, "maximum": 500},
                "secret": {"type": "boolean"},
            },
            "required": ["title"],
            "additionalProperties": False,
        },
    ),
    "weather": (
        "Report today's weather on Grey Island as JSON.",
        {
            "type": "object",
            "properties": {
                "temperature": {"type": "number", "minimum": -40, "maximum": 50},
                "wind": {"type": "integer", "minimum": 0, "maximum": 12},
                "rain": {"type": "boolean"},
                "sky": {"enum": ["clear", "cloudy", "storm"]},
            },
            "required": ["temperature", "wind", "rain", "sky"],
            "additionalProperties": False,
        },
    ),
}


def response_format(name: str) -> dict[str, Any]:
    """The request's `response_format` for one of SCHEMAS."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": SCHEMAS[name][1], "strict": True}}
