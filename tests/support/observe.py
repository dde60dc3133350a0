"""Runs one request and keeps what the response does not tell: token ids, forward passes, what is left in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from atelico.decoding.lane import Lane
from atelico.decoding.loaded import LoadedModel
from atelico.decoding.prepare import prepare
from atelico.engine import Engine
from atelico.job import Job
from atelico.protocol.response import ChatCompletion
from atelico.runtime.context import Logits, Row

Passes = list[tuple[Row, ...]]


@dataclass(frozen=True)
class Run:
    """One answered request with a single choice.

    Attributes:
        prompt, output: token ids; an end token belongs to neither.
        passes: the rows of every forward pass, in order.
        n_memory: tokens left in the memory of the answer's sequence.
        memory: those of them that the passes of this request wrote; all, unless a prefix was reused.
    """

    request: dict[str, Any]
    answer: ChatCompletion
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    passes: Passes
    n_memory: int
    memory: tuple[int, ...]

    @property
    def text(self) -> str:
        """The answer."""
        return self.answer.choices[0].message.content or ""

    @property
    def finish_reason(self) -> str:
        """Why it ended."""
        return self.answer.choices[0].finish_reason

    @property
    def accepted(self) -> int:
        """Draft tokens that were accepted."""
        return self.answer.atelico.speculation.accepted

    @property
    def proposed(self) -> int:
        """Draft tokens that were proposed."""
        return self.answer.atelico.speculation.proposed


def loaded_model(engine: Engine, name: str) -> LoadedModel:
    """The loaded model behind `name`, for inspection between requests."""
    engine.wait_for_model(name)
    loaded = engine._worker(name).loaded
    assert loaded is not None
    return loaded


def run(engine: Engine, request: dict[str, Any]) -> Run:
    """Answer `request` while nothing else runs in `engine`."""
    context = loaded_model(engine, request["model"]).context
    lanes: list[Lane] = []
    passes: Passes = []
    decode = context.decode

    def observed_prepare(job: Job, model: LoadedModel) -> tuple[list[Lane], tuple[str, ...]]:
        found, warnings = prepare(job, model)
        lanes.extend(found)
        return found, warnings

    def observed_decode(rows: Sequence[Row]) -> Logits | None:
        logits = decode(rows)
        if logits is not None:
            passes.append(tuple(rows))
        return logits

    with (
        mock.patch("atelico.decoding.worker.prepare", observed_prepare),
        mock.patch.object(context, "decode", observed_decode),
    ):
        answer = engine.chat_completion(request, timeout=120)
    (lane,) = lanes
    assert lane.sequence is not None
    n_memory = context.length(lane.sequence.id)
    return Run(
        request=request,
        answer=answer,
        prompt=tuple(lane.tokens[: lane.n_prompt]),
        output=tuple(lane.tokens[lane.n_prompt :]),
        passes=passes,
        n_memory=n_memory,
        memory=tuple(written(passes, lane.sequence.id)[:n_memory]),
    )


def written(passes: Passes, sequence: int) -> list[int]:
    """The token last written to each position of `sequence`."""
    tokens: dict[int, int] = {}
    for rows in passes:
        for row in rows:
            if row.sequence == sequence:
                tokens[row.position] = row.token
    return [tokens[position] for position in sorted(tokens)]
