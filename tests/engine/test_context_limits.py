"""Prompts and answers around the limits of batch and context."""

from __future__ import annotations

from typing import Any

import pytest

from atelico.errors import ContextOverflowError
from support.chat import Chat
from support.observe import run

N_CTX, N_BATCH = 256, 64
NEVER_ENDS = {"logit_bias": {"2": -100}, "max_tokens": None}


@pytest.mark.parametrize("n_tokens", [N_BATCH - 1, N_BATCH, N_BATCH + 1, 2 * N_BATCH, 2 * N_BATCH + 1])
def test_a_prompt_around_a_batch_is_read_whole(small: Chat, n_tokens: int) -> None:
    found = run(small.engine, small.request(small.prompt_of(n_tokens), max_tokens=3, cache_prompt=False))
    assert found.answer.usage.prompt_tokens == n_tokens == len(found.prompt)
    assert found.memory == (found.prompt + found.output)[: found.n_memory]
    assert 0 < found.answer.usage.completion_tokens <= 3


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("k", [0, 16])
def test_the_last_places_of_the_context_are_used(small: Chat, room: int, k: int) -> None:
    answer = small.ask(small.prompt_of(N_CTX - room), **NEVER_ENDS, **drafting(k))
    assert answer.usage.completion_tokens == room
    assert answer.usage.total_tokens == N_CTX
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize("n_tokens", [N_CTX, N_CTX + 1, 10 * N_CTX])
def test_a_prompt_that_leaves_no_room_is_refused_with_its_size(small: Chat, n_tokens: int) -> None:
    with pytest.raises(ContextOverflowError, match=rf"{n_tokens} tokens.* {N_CTX} ") as caught:
        small.ask(small.prompt_of(n_tokens))
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")
    assert small.text("Say hello.", max_tokens=4)


@pytest.mark.parametrize("k", [0, 1, 5, 16])
def test_an_answer_may_fill_the_context_at_every_draft_length(small: Chat, k: int) -> None:
    text = "one two three four five six seven eight nine ten " * 19
    found = run(small.engine, small.request(text, **NEVER_ENDS, **drafting(k)))
    assert found.answer.usage.total_tokens == N_CTX
    assert found.finish_reason == "length"
    assert found.n_memory <= N_CTX
    assert max(row.position for rows in found.passes for row in rows) < N_CTX
    assert small.text("Say hello.", max_tokens=4)


def test_a_token_limit_beyond_the_context_is_cut_to_it(small: Chat) -> None:
    answer = small.ask(small.prompt_of(N_CTX - 5), max_tokens=2**31 - 1, logit_bias={"2": -100})
    assert answer.usage.completion_tokens == 5
    assert answer.choices[0].finish_reason == "length"


def test_drafts_never_pass_the_token_limit(small: Chat) -> None:
    for limit in (1, 2, 3, 7):
        found = run(small.engine, small.request("a b c d a b c d a b c d", **{**drafting(16), "max_tokens": limit}))
        assert found.answer.usage.completion_tokens == len(found.output) <= limit
        assert found.n_memory <= len(found.prompt) + limit


def test_a_schema_whose_answer_does_not_fit_is_refused(small: Chat) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 200}
    with pytest.raises(ContextOverflowError, match="more than 20 tokens"):
        small.ask(
            small.prompt_of(N_CTX - 20),
            max_tokens=None,
            response_format={"type": "json_schema", "json_schema": {"name": "long", "schema": schema}},
        )


def drafting(k: int) -> dict[str, Any]:
    """Speculation with that draft length, 0 for none, whether it pays or not."""
    if k == 0:
        return {}
    return {"speculative": {"proposer": "prompt_lookup", "k": k}, "atelico": {"governor": "off"}}
