"""Cancelling at any moment: what comes back, and that the next request is none the wiser."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from atelico import Engine, EngineConfig
from atelico.job import FinishEvent, Job, TextEvent
from support.chat import DRAFTING, REPEAT, SMOLLM2, Chat, streamed_text

ENDLESS = {"max_tokens": 600, "logit_bias": {"2": -100}}


@pytest.fixture
def one_lane() -> Iterator[Chat]:
    """An engine that decodes one lane at a time."""
    with Engine(EngineConfig(n_ctx=512, n_threads=1, n_lanes=1)) as engine:
        yield Chat(engine, SMOLLM2)


def test_cancelled_in_the_same_tick_nothing_is_generated(smol: Chat) -> None:
    job = smol.submit("Count.", **ENDLESS)
    job.cancel()
    answer = job.result(30)
    assert answer.choices[0].finish_reason == "cancelled"
    assert answer.usage.completion_tokens <= 1


def test_cancelled_while_the_model_loads_it_ends_before_the_model_is_there(one_lane: Chat) -> None:
    job = one_lane.submit("Count.", **ENDLESS)
    job.cancel()
    assert job.result(0).choices[0].finish_reason == "cancelled"
    assert one_lane.text("Say hello.", max_tokens=4)


def test_cancelled_while_the_prompt_is_read_it_has_no_text(smol: Chat) -> None:
    job = smol.submit("The old mill stood there. " * 120, **ENDLESS)
    started = threading.Event()
    threading.Timer(0.2, started.set).start()
    started.wait()
    job.cancel()
    answer = job.result(30)
    assert answer.choices[0].finish_reason == "cancelled"
    assert answer.choices[0].message.content == ""
    assert answer.usage.completion_tokens == 0


@pytest.mark.parametrize("fields", [{}, DRAFTING], ids=["plain", "drafting"])
def test_cancelled_in_the_middle_the_answer_so_far_is_returned_and_counted(
    smol: Chat, fields: dict[str, object]
) -> None:
    job = smol.submit(REPEAT, stream=True, **ENDLESS, **fields)
    chunks = []
    for chunk in job.chunks():
        chunks.append(chunk)
        if len(streamed_text(chunks)) > 20:
            job.cancel()
    answer = job.result(30)
    text = answer.choices[0].message.content or ""
    assert answer.choices[0].finish_reason == "cancelled"
    assert streamed_text(chunks) == text
    assert 0 < answer.usage.completion_tokens < 600
    assert len(text) > 20
    assert chunks[-1].choices[0].finish_reason == "cancelled"


def test_cancelling_after_the_end_or_twice_changes_nothing(smol: Chat) -> None:
    job = smol.submit("Say hello.", max_tokens=4)
    answer = job.result(30)
    job.cancel()
    job.cancel()
    assert job.result(0) is answer
    assert answer.choices[0].finish_reason != "cancelled"


def test_cancelling_one_request_leaves_those_beside_it_alone(smol: Chat) -> None:
    victim = smol.submit("Count.", **ENDLESS)
    beside = smol.submit("The secret word is falcon. What is the secret word?")
    next(victim.chunks())
    victim.cancel()
    assert "falcon" in (beside.result(60).choices[0].message.content or "").lower()
    assert victim.result(30).choices[0].finish_reason == "cancelled"


def test_cancelled_requests_leave_no_trace_in_the_next_answer(smol: Chat) -> None:
    question = "The key is blue. What colour is the key?"
    expected = smol.text(question)
    for delay in (0.0, 0.02, 0.1, 0.3):
        job = smol.submit(question + " Explain at length.", **ENDLESS, **DRAFTING)
        threading.Event().wait(delay)
        job.cancel()
        job.result(30)
        assert smol.text(question) == expected


def test_a_choice_that_was_finished_when_the_rest_was_cancelled_is_still_returned(
    one_lane: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = Job.push

    def cancel_after_the_first_choice(job: Job, event: TextEvent | FinishEvent) -> None:
        push(job, event)
        if isinstance(event, FinishEvent):
            job.cancel()

    monkeypatch.setattr(Job, "push", cancel_after_the_first_choice)
    job = one_lane.submit("Say hello.", n=2, max_tokens=4, stream=True)
    chunks = list(job.chunks())
    answer = job.result(30)
    assert [choice.finish_reason for choice in answer.choices] == ["length", "cancelled"]
    assert answer.choices[0].message.content == streamed_text(chunks, choice=0) != ""
    assert answer.usage.completion_tokens == 4
    assert answer.usage.prompt_tokens > 0
    finished = {c.index: c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason}
    assert finished == {0: "length", 1: "cancelled"}


def test_the_answer_of_a_request_that_never_began_is_complete_in_shape(smol: Chat) -> None:
    job = smol.submit("Count.", n=2, **ENDLESS)
    job.cancel()
    answer = job.result(30).model_dump()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    assert all(choice["message"] | {"content": ""} == choice["message"] for choice in answer["choices"])
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"]
    assert answer["atelico"]["speculation"]["active"] is False
    assert answer["atelico"]["speculation"]["reason"]
