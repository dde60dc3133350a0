"""What a benchmark and the process of an engine tell each other: one JSON line per message. No engine is named here."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Load(Struct, kw_only=True):
    """Load a model.

    `n_threads`: 0 takes the engine's default. `draft`: the engine's own speculation, by its name; None for none; where
    a request decides about that, it is ignored. `extra`: options only one engine has.
    """

    model: str
    n_ctx: int
    n_threads: int = 0
    n_lanes: int = 1
    draft: str | None = None
    extra: dict[str, Any] = {}


class Ask(Struct, kw_only=True):
    """Generate. `text` and `tokens` are the same prompt. `reuse`: whether an earlier request's memory may be used.

    `sampled`: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05 with `seed`; False is greedy.
    """

    text: str
    tokens: list[int]
    max_tokens: int
    sampled: bool = False
    seed: int = 1
    schema: dict[str, Any] | None = None
    speculates: bool = False
    reuse: bool = False
    extra: dict[str, Any] = {}


class Answer(Struct, kw_only=True):
    """What came.

    Attributes:
        n_tokens: tokens sampled, the end token included.
        first_token_s: from the request to the first token.
        decode_s: from the first to the last token.
        total_s: from the request to the whole answer.
        n_proposed, n_accepted: draft tokens.
        n_reused: prompt tokens that had not to be read.
        pieces, gaps: each token's text, and by how much log-probability it led the runner-up; only where `extra` asked
            for log-probabilities.
    """

    text: str
    n_tokens: int
    first_token_s: float
    decode_s: float
    total_s: float
    finished: bool
    n_proposed: int = 0
    n_accepted: int = 0
    n_reused: int = 0
    pieces: list[str] = []
    gaps: list[float] = []

    @property
    def tokens_per_second(self) -> float:
        """Of decoding alone; the first token belongs to the prompt."""
        return (self.n_tokens - 1) / self.decode_s if self.decode_s > 0 and self.n_tokens > 1 else 0.0


class Call(Struct, kw_only=True):
    """One call of a method of the engine's adapter."""

    method: str
    arguments: dict[str, Any] = {}


class Result(Struct, kw_only=True):
    """What it returned, or the error it raised."""

    value: Any = None
    error: str | None = None


T_SAMPLED = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
T_GREEDY = {"temperature": 0.0}
