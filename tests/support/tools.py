"""Two tools that tests offer to models. No tests, no fixtures."""

from __future__ import annotations

from typing import Any

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
DOOR: dict[str, Any] = {"type": "function", "function": {"name": "open_door", "description": "Opens the door."}}
SCHEMAS = {"get_weather": WEATHER["function"]["parameters"], "open_door": {"type": "object", "maxProperties": 0}}
