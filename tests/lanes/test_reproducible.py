"""Reproducible requests: the same text, to the last log-probability, whatever else the engine is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from atelico import Engine, EngineConfig
from atelico.decoding import loop
from atelico.decoding.lane import Lane
from support.chat import GEMMA, SMOLLM2
from support.prompts import PROMPTS, request, speculative
from support.tiny_answers import SHEET

REPRODUCIBLE = {"atelico": {"reproducible": "on"}}
FIELDS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.8, "seed": 3},
    {"temperature": 0.8, "seed": 4, **speculative("prompt_lookup", 5)},
    {"temperature": 0.8, "seed": 5, "response_format": SHEET},
]
LIVELY = list(PROMPTS.values())


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """Three lanes that keep dialogues in memory."""
    with Engine(EngineConfig(n_ctx=1024, n_threads=1, n_lanes=3)) as engine:
        yield engine


def body(model: str, i: int) -> dict[str, Any]:
    """The `i`-th reproducible request; it asks for reuse, and gets none."""
    fields = FIELDS[i]
    options = {**fields.get("atelico", {}), "reproducible": "on"}
    return {
        **request(model, LIVELY[i], max_tokens=32, logprobs=True, **fields),
        "atelico": options,
        "cache_prompt": True,
    }


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA])
def test_a_reproducible_text_does_not_depend_on_other_requests(engine: Engine, model: str) -> None:
    alone = [engine.chat_completion(body(model, i), 300).choices[0] for i in range(len(FIELDS))]
    jobs = []
    for i in range(len(FIELDS)):
        others = [request(model, text, max_tokens=8 + 8 * i, temperature=0.8, seed=i) for text in LIVELY[i : i + 3]]
        jobs += [engine.submit({**other, "cache_prompt": True}) for other in others]
        jobs.append(engine.submit(body(model, i)))
    together = [job.result(300).choices[0] for job in jobs[3::4]]
    assert [choice.message.content for choice in together] == [choice.message.content for choice in alone]
    assert [choice.logprobs for choice in together] == [choice.logprobs for choice in alone]
    assert engine.chat_completion(body(model, 0), 300).atelico.cached_tokens == 0


def test_nothing_runs_beside_a_reproducible_request(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[tuple[int, int]] = []  # lanes, and those that are to be alone
    plan_round = loop.plan_round

    def watched(lanes: Sequence[Lane], *rest: Any) -> Any:
        rounds.append((len(lanes), sum(lane.alone for lane in lanes)))
        return plan_round(lanes, *rest)

    monkeypatch.setattr(loop, "plan_round", watched)
    ordinary = [request(SMOLLM2, text, max_tokens=24) for text in LIVELY[:4]]
    two_choices = {**request(SMOLLM2, LIVELY[0], max_tokens=6, n=2), **REPRODUCIBLE}
    jobs = [engine.submit(one) for one in (*ordinary[:2], two_choices, *ordinary[2:])]
    assert all(choice.finish_reason for job in jobs for choice in job.result(300).choices)
    assert {n_lanes for n_lanes, n_alone in rounds if n_alone} == {1}
    assert max(n_lanes for n_lanes, _ in rounds) >= 2
