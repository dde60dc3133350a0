"""The workloads: what games ask, in TOML files of our own words. A workload's prompts come in the file's order."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

FOLDER = Path(__file__).parent


class Prompt(Struct, forbid_unknown_fields=True):
    """One request: a single question, or the turns of a dialogue, the player's first."""

    user: str | None = None
    turns: list[str] = []


class Workload(Struct, forbid_unknown_fields=True):
    """Requests of one kind.

    Attributes:
        grounded: whether answers repeat text that stands in the prompt.
        max_tokens: output tokens at most; None leaves it to the run.
        schema: a JSON schema as text, where the answer must follow one.
    """

    name: str
    grounded: bool
    system: str
    prompts: list[Prompt]
    max_tokens: int | None = None
    schema: str | None = None

    def messages(self, prompt: Prompt) -> list[dict[str, Any]]:
        """The dialogue that `prompt` stands for."""
        turns = prompt.turns or [(prompt.user or "").strip()]
        roles = [("user", "assistant")[i % 2] for i in range(len(turns))]
        dialogue = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
        return [{"role": "system", "content": self.system}, *dialogue]

    def json_schema(self) -> dict[str, Any] | None:
        """The schema, parsed."""
        parsed: dict[str, Any] | None = json.loads(self.schema) if self.schema else None
        return parsed


def load_workloads() -> dict[str, Workload]:
    """All workloads by name."""
    found = [msgspec.convert(tomllib.loads(path.read_text()), Workload) for path in sorted(FOLDER.glob("*.toml"))]
    return {workload.name: workload for workload in found}
