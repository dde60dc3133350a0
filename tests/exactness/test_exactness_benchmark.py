"""The benchmark of exactness in short: every proposer against plain decoding, and that a difference would be seen."""

from __future__ import annotations

import pytest
from benchmarks import exactness, models
from msgspec.structs import replace

from atelico import Engine
from support.prompts import request, speculative


@pytest.fixture(scope="module")
def cells() -> list[exactness.Cell]:
    """Some tokens of the tiny model with a NextN head."""
    return exactness.measure(models.HEAD, 500)


def test_no_proposer_changes_a_text_or_a_log_probability(cells: list[exactness.Cell]) -> None:
    assert {(cell.proposer, cell.mode) for cell in cells} == {
        (proposer, mode)
        for proposer in ("prompt_lookup", "lookahead", "prediction", "mtp")
        for mode in ("greedy", "seeded")
    }
    for cell in cells:
        assert cell.tokens >= 500
        assert cell.proposed > 0
        assert (cell.differences, cell.logprobs) == (0, 0.0), cell


def test_another_text_or_log_probability_would_be_seen(tiny_engine: Engine) -> None:
    body = request(models.model_file(models.HEAD), "the key", max_tokens=8, temperature=0, logprobs=True)
    plain = tiny_engine.chat_completion(body, 60)
    drafted = tiny_engine.chat_completion({**body, **speculative("mtp", 2)}, 60)
    choice = drafted.choices[0]
    cell = exactness.Cell("tiny", "mtp", 2, "greedy")
    cell.count(plain, drafted, 0.0)
    assert cell.exact
    other = replace(drafted, choices=[replace(choice, message=replace(choice.message, content="no"))])
    cell.count(plain, other, 0.0)
    assert (cell.differences, cell.exact) == (1, False)

    assert choice.logprobs is not None and choice.logprobs.content is not None
    first, *rest = choice.logprobs.content
    moved = replace(choice.logprobs, content=[replace(first, logprob=first.logprob - 0.01), *rest])
    cell = exactness.Cell("tiny", "mtp", 2, "greedy")
    cell.count(plain, replace(drafted, choices=[replace(choice, logprobs=moved)]), 0.0)
    assert (cell.differences, cell.exact) == (0, False)
