"""What tests with tiny models share: the configuration of their engine, a prompt in their vocabulary, a type."""

from __future__ import annotations

from collections.abc import Callable

from atelico import EngineConfig

from .observe import Run

ALONE = EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0)
WORDS = "Where is the key? The miller lost her key under the old bridge near the river."
SHEET = {
    "type": "json_schema",
    "json_schema": {
        "name": "sheet",
        "schema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 12},
                "class": {"enum": ["mage", "thief", "warrior"]},
                "level": {"type": "integer", "minimum": 1, "maximum": 20},
            },
            "required": ["name", "class", "level"],
            "additionalProperties": False,
        },
    },
}

# Model name, and fields of the request.
Answer = Callable[..., Run]
