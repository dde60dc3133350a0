"""Stop strings: text, usage, log-probabilities and memory end where the stop string begins."""

from __future__ import annotations

from typing import Any

import pytest

from support.chat import DRAFTING, REPEAT, Chat, streamed_text
from support.observe import Run, run

MODES: dict[str, dict[str, Any]] = {"plain": {}, "drafting": DRAFTING}


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Fields of a request that decodes plainly, or with eight draft tokens per round."""
    return MODES[request.param]


@pytest.fixture(scope="module")
def whole(smol: Chat, mode: dict[str, Any]) -> Run:
    """The answer without a stop string."""
    found = run(smol.engine, smol.request(REPEAT, max_tokens=24, **mode))
    assert len(found.text) > 60
    assert (found.accepted > 8) == bool(mode)
    return found


@pytest.mark.parametrize("place", [(0, 3), (9, 10), (12, 30), (33, 34), (40, 58)], ids=str)
def test_everything_ends_where_the_stop_string_begins(
    smol: Chat, mode: dict[str, Any], whole: Run, place: tuple[int, int]
) -> None:
    stop = whole.text[slice(*place)]
    expected = whole.text[: whole.text.index(stop)]
    found = run(smol.engine, smol.request(REPEAT, max_tokens=24, stop=[stop], logprobs=True, top_logprobs=2, **mode))
    (choice,) = found.answer.choices
    pieces = [smol.loaded.model.vocabulary.piece(token) for token in whole.output]
    begins = [sum(map(len, pieces[:i])) for i in range(len(pieces))]
    n_kept = sum(begin < len(expected) for begin in begins)
    assert found.text == expected
    assert found.finish_reason == "stop"
    assert found.answer.usage.completion_tokens == n_kept
    assert found.output == whole.output[:n_kept]
    assert choice.logprobs is not None
    assert len(choice.logprobs.content) == n_kept
    assert len(found.prompt) + n_kept - 1 <= found.n_memory <= len(found.prompt) + n_kept


def test_of_several_stop_strings_the_first_in_the_text_counts(smol: Chat, mode: dict[str, Any], whole: Run) -> None:
    stops = [whole.text[40:45], whole.text[20:26], whole.text[20:24], "never said"]
    first = min(whole.text.index(stop) for stop in stops[:3])
    assert smol.text(REPEAT, max_tokens=24, stop=stops, **mode) == whole.text[:first]


def test_no_delta_shows_a_part_of_the_stop_string(smol: Chat, mode: dict[str, Any], whole: Run) -> None:
    stop = whole.text[24:40]
    chunks = smol.chunks(REPEAT, max_tokens=24, stop=stop, **mode)
    assert streamed_text(chunks) == whole.text[: whole.text.index(stop)]


def test_a_stop_string_that_never_comes_holds_nothing_back(smol: Chat, mode: dict[str, Any], whole: Run) -> None:
    almost = whole.text[-6:] + "!?"
    chunks = smol.chunks(REPEAT, max_tokens=24, stop=[almost], **mode)
    assert streamed_text(chunks) == whole.text


def test_a_stop_string_at_the_very_start_leaves_an_empty_answer(smol: Chat, mode: dict[str, Any], whole: Run) -> None:
    answer = smol.ask(REPEAT, stop=[whole.text[0]], **mode)
    assert answer.choices[0].message.content == ""
    assert answer.usage.completion_tokens == 0
    assert answer.choices[0].finish_reason == "stop"


def test_the_next_turn_continues_what_was_returned(smol: Chat, mode: dict[str, Any], whole: Run) -> None:
    stop = whole.text[33:36]
    found = run(smol.engine, smol.request(REPEAT, max_tokens=24, stop=[stop], **mode))
    dialogue = [
        {"role": "user", "content": REPEAT},
        {"role": "assistant", "content": found.text},
        {"role": "user", "content": "Go on."},
    ]
    after = run(smol.engine, smol.request(dialogue, max_tokens=4))
    assert after.answer.usage.prompt_tokens_details.cached_tokens >= len(found.prompt) - 1
    assert list(after.prompt) == smol.prompt_tokens(dialogue)
    assert after.text


def test_a_stop_string_may_end_a_structured_answer(smol: Chat, mode: dict[str, Any]) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"const": "Bob"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }
    said = {"type": "json_schema", "json_schema": {"name": "npc", "schema": schema}}
    answer = smol.ask("Describe Bob.", max_tokens=40, response_format=said, stop=['"age"'], **mode)
    text = answer.choices[0].message.content or ""
    assert "Bob" in text
    assert "age" not in text
    assert answer.choices[0].finish_reason == "stop"
