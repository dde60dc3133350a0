"""Job: what crosses between the caller's threads and the decode thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from atelico.client import ChatStream
from atelico.decoding.answer import end_unstarted
from atelico.errors import InferenceError
from atelico.job import FinishEvent, Job, TextEvent
from atelico.protocol.read import decode_request
from atelico.protocol.response import (
    AssistantMessage,
    AtelicoInfo,
    ChatCompletion,
    Choice,
    FinishReason,
    SpeculationInfo,
    Timings,
    TokenLogprob,
    Usage,
)


def make_job(**fields: Any) -> Job:
    request = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    return Job(decode_request(request), on_cancel=lambda job: None if job.started else end_unstarted(job))


def answer(job: Job, *texts: str, reason: FinishReason = "stop") -> ChatCompletion:
    return ChatCompletion(
        id=job.id,
        created=job.created,
        model=job.request.model,
        choices=[
            Choice(index=i, message=AssistantMessage(content=text), finish_reason=reason)
            for i, text in enumerate(texts)
        ],
        usage=Usage(prompt_tokens=3, completion_tokens=2, total_tokens=5),
        atelico=AtelicoInfo(
            speculation=SpeculationInfo(proposer=None, active=False, reason="not requested"),
            timings=Timings(),
            cached_tokens=0,
            device="cpu",
        ),
    )


def played(job: Job, *texts: str) -> Job:
    """A job that has answered each of its choices in one delta."""
    assert job.start()
    for i, text in enumerate(texts):
        job.push(TextEvent(i, text, ""))
        job.push(FinishEvent(i, "stop"))
    job.end(answer(job, *texts))
    return job


def test_the_result_reaches_every_thread_that_waits() -> None:
    job = make_job()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(job.result, 10) for _ in range(4)]
        played(job, "Hello")
        assert [w.result().choices[0].message.content for w in waiting] == ["Hello"] * 4


def test_a_job_ends_once() -> None:
    job = make_job()
    first, second = answer(job, "first"), InferenceError("second")
    with ThreadPoolExecutor(8) as pool:
        counted = list(pool.map(job.end, [first] * 8))
    assert counted.count(True) == 1
    assert not job.end(second)
    assert job.result(0) is first


def test_an_error_is_raised_to_whoever_asks() -> None:
    job = make_job()
    job.end(InferenceError("llama.cpp failed"))
    for _ in range(2):
        with pytest.raises(InferenceError, match=r"llama\.cpp failed"):
            job.result(0)
    with pytest.raises(InferenceError):
        list(job.chunks())


def test_a_timeout_leaves_the_job_running() -> None:
    job = make_job()
    with pytest.raises(TimeoutError):
        job.result(0.01)
    assert not job.ended
    assert not job.cancelled
    assert played(job, "late").result(0).choices[0].message.content == "late"


def test_a_job_that_was_cancelled_before_its_start_has_its_ending_at_once() -> None:
    job = make_job(n=2)
    job.cancel()
    completion = job.result(0)
    assert [choice.finish_reason for choice in completion.choices] == ["cancelled", "cancelled"]
    assert completion.usage.completion_tokens == 0
    assert not job.start()


def test_a_cancelled_job_that_runs_is_ended_by_the_decode_side() -> None:
    job = make_job()
    assert job.start()
    job.cancel()
    assert job.cancelled
    assert not job.ended


def test_cancelling_twice_or_after_the_end_changes_nothing() -> None:
    job = make_job()
    job.cancel()
    job.cancel()
    finished = played(make_job(), "done")
    finished.cancel()
    assert not finished.cancelled
    assert finished.result(0).choices[0].finish_reason == "stop"
    assert job.result(0).choices[0].finish_reason == "cancelled"


def test_cancel_and_start_at_the_same_time_leave_exactly_one_side_in_charge() -> None:
    for _ in range(200):
        job = make_job()
        barrier = threading.Barrier(2)

        def start(job: Job = job, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            return job.start()

        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(start)
            barrier.wait()
            job.cancel()
            # Either the decode side works on it, sees the flag and ends it, or it has ended already.
            assert started.result() != job.ended
            assert job.cancelled


def test_chunks_come_in_order_role_text_finish() -> None:
    job = make_job()
    assert job.start()
    for text in ("Hel", "lo"):
        job.push(TextEvent(0, text, ""))
    job.push(FinishEvent(0, "length"))
    job.end(answer(job, "Hello", reason="length"))
    chunks = list(job.chunks())
    choices = [chunk.choices[0] for chunk in chunks]
    assert choices[0].delta.role == "assistant"
    assert [c.delta.content for c in choices[1:3]] == ["Hel", "lo"]
    assert [c.finish_reason for c in choices] == [None, None, None, "length"]
    assert [chunk.atelico is not None for chunk in chunks] == [False, False, False, True]
    assert {chunk.id for chunk in chunks} == {job.id}


def test_the_usage_chunk_comes_last_without_choices_and_only_on_request() -> None:
    asked = list(played(make_job(stream_options={"include_usage": True}), "Hi").chunks())
    assert asked[-1].choices == []
    assert asked[-1].usage is not None
    assert asked[-1].usage.total_tokens == 5
    assert asked[-1].atelico is not None
    assert all(chunk.usage is None for chunk in asked[:-1])
    assert all(chunk.choices for chunk in played(make_job(), "Hi").chunks())


def test_each_of_several_choices_has_its_own_role_and_finish() -> None:
    chunks = list(played(make_job(n=3), "one", "two", "three").chunks())
    for i, text in enumerate(("one", "two", "three")):
        mine = [choice for chunk in chunks for choice in chunk.choices if choice.index == i]
        assert [choice.delta.role for choice in mine].count("assistant") == 1
        assert "".join(choice.delta.content or "" for choice in mine) == text
        assert [choice.finish_reason for choice in mine if choice.finish_reason] == ["stop"]


def test_a_choice_that_was_cancelled_before_its_first_text_still_finishes_in_the_stream() -> None:
    job = make_job(n=2)
    job.cancel()
    finished = {c.index: c.finish_reason for chunk in job.chunks() for c in chunk.choices if c.finish_reason}
    assert finished == {0: "cancelled", 1: "cancelled"}


def test_logprobs_that_no_text_carried_come_with_the_finish() -> None:
    logprob = TokenLogprob(token="x", logprob=-1.0, bytes=[120], top_logprobs=[])
    job = make_job(logprobs=True)
    job.start()
    job.push(TextEvent(0, "x", "", [logprob]))
    job.push(FinishEvent(0, "stop", [logprob]))
    job.end(answer(job, "x"))
    sent = [c.logprobs.content for chunk in job.chunks() for c in chunk.choices if c.logprobs]
    assert sent == [[logprob], [logprob]]


def test_an_abandoned_iteration_cancels() -> None:
    job = make_job()
    job.start()
    job.push(TextEvent(0, "Hello", ""))
    chunks = job.chunks()
    next(chunks)
    assert isinstance(chunks, Iterator)
    del chunks
    assert job.cancelled


def test_a_stream_that_nobody_reads_cancels_when_it_is_dropped_or_closed() -> None:
    dropped, closed = make_job(), make_job()
    ChatStream(dropped)
    ChatStream(closed).close()
    assert dropped.cancelled
    assert closed.cancelled


def test_an_error_in_the_middle_reaches_the_reader_after_the_text_before_it() -> None:
    job = make_job()
    job.start()
    job.push(TextEvent(0, "Hel", ""))
    job.end(InferenceError("lost"))
    texts = []
    with pytest.raises(InferenceError):
        for chunk in job.chunks():
            texts.append(chunk.choices[0].delta.content)
    assert texts == ["", "Hel"]


def test_a_reader_sees_text_while_the_writer_still_works() -> None:
    job = make_job()
    job.start()
    seen = threading.Event()

    def write() -> None:
        job.push(TextEvent(0, "early", ""))
        assert seen.wait(10)
        job.push(FinishEvent(0, "stop"))
        job.end(answer(job, "early"))

    writer = threading.Thread(target=write)
    writer.start()
    for chunk in job.chunks():
        if chunk.choices[0].delta.content == "early":
            seen.set()
    writer.join(10)
    assert seen.is_set()
    assert job.ended


def test_a_subscriber_hears_of_every_event_and_reads_without_waiting() -> None:
    job = make_job()
    heard: list[int] = []
    job.subscribe(lambda: heard.append(len(job.ready_chunks())))
    assert heard == [0]
    job.start()
    job.push(TextEvent(0, "Hi", ""))
    job.push(FinishEvent(0, "stop"))
    assert not job.all_read
    job.end(answer(job, "Hi"))
    assert heard == [0, 2, 0, 1]  # role and text; the finish waits for the ending; the finish
    assert job.all_read
    assert job.ready_chunks() == []


def test_a_subscriber_that_fails_hurts_nobody() -> None:
    job = make_job()
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("a defect of the listener")

    job.subscribe(fail)
    assert played(job, "Hi").result(0).choices[0].message.content == "Hi"
    assert len(calls) == 4


def test_ready_chunks_give_the_text_before_they_raise_the_error() -> None:
    job = make_job()
    job.start()
    job.push(TextEvent(0, "Hel", ""))
    job.end(InferenceError("lost"))
    assert [chunk.choices[0].delta.content for chunk in job.ready_chunks()] == ["", "Hel"]
    with pytest.raises(InferenceError):
        job.ready_chunks()


def test_ids_and_times_tell_jobs_apart() -> None:
    first, second = make_job(), make_job()
    assert first.id != second.id
    assert abs(first.created - time.time()) < 60
