"""From the options of `atelico chat` to requests. Asks nothing and prints nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec


@dataclass(frozen=True)
class Named:
    """A JSON schema and the name it goes by."""

    name: str
    schema: Any


@dataclass(frozen=True)
class AskOptions:
    """What every request of one `atelico chat` has in common; None leaves a field to the engine.

    Attributes:
        speculative: the proposer's name; with only `k` or `acceptance` given it is "auto".
        stats: print counts and speed after each answer.
    """

    model: str
    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    speculative: str | None = None
    k: int | None = None
    acceptance: str | None = None
    schema: Named | None = None
    stats: bool = False

    @property
    def speculates(self) -> bool:
        """Whether speculation was asked for."""
        return any(option is not None for option in (self.speculative, self.k, self.acceptance))


def opening(options: AskOptions) -> list[dict[str, str]]:
    """The messages every dialogue begins with."""
    return [{"role": "system", "content": options.system}] if options.system else []


def request_for(options: AskOptions, messages: Sequence[dict[str, str]]) -> dict[str, Any]:
    """The request that continues `messages`, as protocol/request.py has it."""
    request: dict[str, Any] = {
        "model": options.model,
        "messages": list(messages),
        "temperature": options.temperature,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
    }
    if options.speculates:
        request["speculative"] = {
            "proposer": options.speculative or "auto",
            "k": options.k,
            "acceptance": options.acceptance,
        }
    if options.schema is not None:
        named = {"name": options.schema.name, "schema": options.schema.schema}
        request["response_format"] = {"type": "json_schema", "json_schema": named}
    return request


def read_schema(path: Path) -> Named:
    """The JSON schema in `path`, named after the file.

    Raises:
        ValueError: the file cannot be read or is not JSON; the message says which.
    """
    try:
        schema = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the file {path} is not valid JSON: {error}") from None
    return Named(re.sub(r"[^a-zA-Z0-9_-]+", "_", path.stem)[:64] or "answer", schema)
