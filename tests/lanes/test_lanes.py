"""Several requests at once: they overlap, keep their texts, start in their order, and stop when told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from atelico import Engine, EngineConfig
from atelico.errors import BusyError, InvalidRequestError
from atelico.job import Job
from support.chat import DRAFTING, Chat
from support.tiny_models import write_tiny

QUESTIONS = [
    "the miller lost her key",
    "near the old stone",
    "under the mill the key is lost",
    "her stone is old",
    "old old key near the miller",
    "the stone",
]


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model in 32-bit floats, so that batches of any shape agree far beyond a near tie."""
    return write_tiny("llama", tmp_path_factory.mktemp("tiny") / "llama.gguf", noise=0.7, seed=2)


@pytest.fixture(scope="module")
def tiny(tiny_file: Path) -> Iterator[Chat]:
    """Three lanes, prompts read in small pieces while others generate."""
    with Engine(EngineConfig(n_ctx=512, n_lanes=3, n_threads=1, prefill_chunk=8)) as engine:
        yield Chat(engine, str(tiny_file))


def wait_for(condition: Any, seconds: float = 30.0) -> None:
    """Poll until `condition()` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def running(chat: Chat) -> int:
    """Lanes that generate."""
    return sum(load.loop.n_running for load in chat.engine.loads())


@pytest.mark.parametrize("fields", [{}, DRAFTING, {"temperature": 0.9, "seed": 7}], ids=["plain", "drafting", "seeded"])
def test_a_lane_s_text_does_not_depend_on_the_others(tiny: Chat, fields: dict[str, Any]) -> None:
    alone = [tiny.text(question, max_tokens=80, **fields) for question in QUESTIONS]
    jobs = [tiny.submit(question, max_tokens=80, **fields) for question in QUESTIONS]
    together = [job.result(60).choices[0].message.content for job in jobs]
    assert together == alone
    assert len(set(alone)) > 1


def test_a_reused_prefix_does_not_change_the_text(tiny: Chat) -> None:
    world = {"role": "system", "content": "the old miller lost her key under the stone near the mill " * 3}
    for question in QUESTIONS:
        messages = [world, {"role": "user", "content": question}]
        cold = tiny.ask(messages, max_tokens=60, cache_prompt=False)
        warm = tiny.ask(messages, max_tokens=60)
        assert cold.atelico.cached_tokens == 0
        assert warm.atelico.cached_tokens == warm.usage.prompt_tokens_details.cached_tokens > 60
        assert warm.choices[0].message.content == cold.choices[0].message.content


def test_the_next_turn_reads_only_what_is_new(tiny: Chat) -> None:
    dialogue = [{"role": "user", "content": "the miller lost her key near the stone under the mill"}]
    answer = tiny.ask(dialogue, max_tokens=40)
    dialogue += [
        {"role": "assistant", "content": answer.choices[0].message.content},
        {"role": "user", "content": "near the old stone"},
    ]
    turn = tiny.ask(dialogue, max_tokens=5)
    assert turn.atelico.cached_tokens >= answer.usage.total_tokens - 2


def test_requests_overlap(tiny: Chat) -> None:
    first, second = (tiny.submit(question, max_tokens=400, stop=["\0"]) for question in QUESTIONS[:2])
    wait_for(lambda: running(tiny) == 2)
    for job in (first, second):
        job.cancel()
        assert job.result(30).choices[0].finish_reason == "cancelled"


def test_a_long_prompt_does_not_stall_a_running_lane(tiny: Chat) -> None:
    """The prompt is read eight tokens a round, and every round the running lane gains a token."""
    speaking = tiny.submit("the old stone", max_tokens=400, stream=True)
    chunks = speaking.chunks()
    next(chunks)
    listening = tiny.submit("under the old mill " * 60, max_tokens=1, cache_prompt=False)
    n_between = 0
    for chunk in chunks:
        if listening.ended:
            break
        n_between += bool(chunk.choices and chunk.choices[0].delta.content)
    assert listening.result(30).usage.prompt_tokens > 200
    speaking.cancel()
    assert n_between >= 10


def test_more_requests_than_lanes_are_all_answered(tiny: Chat) -> None:
    jobs = [tiny.submit(f"{QUESTIONS[i % 6]} {i}", max_tokens=12) for i in range(40)]
    answers = [job.result(60) for job in jobs]
    assert all(answer.usage.completion_tokens > 0 for answer in answers)
    assert running(tiny) == 0


def test_requests_from_many_threads_get_their_own_answers(tiny: Chat) -> None:
    expected = [tiny.text(question, max_tokens=30) for question in QUESTIONS]
    got: dict[int, str] = {}

    def ask(i: int) -> None:
        got[i] = tiny.text(QUESTIONS[i % 6], max_tokens=30)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got == {i: expected[i % 6] for i in range(12)}


@pytest.fixture
def single(tiny_file: Path) -> Iterator[Chat]:
    """One lane, and room for two requests to wait."""
    with Engine(EngineConfig(n_ctx=512, n_lanes=1, n_threads=1, max_queue=3)) as engine:
        chat = Chat(engine, str(tiny_file))
        chat.text("the", max_tokens=1)
        yield chat


def test_the_urgent_one_starts_first(single: Chat) -> None:
    blocker = single.submit("the old stone", max_tokens=480)
    wait_for(lambda: running(single) == 1)
    order: list[str] = []

    def follow(name: str, job: Job) -> threading.Thread:
        def wait() -> None:
            job.result(60)
            order.append(name)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread

    low = single.submit("the key", max_tokens=40, atelico={"priority": "low"})
    high = single.submit("the key", max_tokens=40, atelico={"priority": "high"})
    followers = [follow("low", low), follow("high", high)]
    wait_for(lambda: low.started and high.started)
    time.sleep(0.3)  # they are being prepared; then both wait for the lane
    blocker.cancel()
    for follower in followers:
        follower.join(60)
    assert order == ["high", "low"]


def test_a_full_queue_says_busy_and_loses_nobody(single: Chat) -> None:
    jobs = [single.submit("the old stone", max_tokens=480) for _ in range(3)]
    with pytest.raises(BusyError, match="max_queue"):
        single.submit("one too many")
    for job in jobs:
        job.cancel()
    assert [job.result(30).choices[0].finish_reason for job in jobs] == ["cancelled"] * 3
    assert single.text("the key", max_tokens=3)


def test_a_cancel_in_the_middle_of_a_prompt_frees_the_lane(smol: Chat) -> None:
    smol.text("Hello", max_tokens=1)
    job = smol.submit("The old mill by the river. " * 120, max_tokens=5, cache_prompt=False)
    wait_for(lambda: running(smol) == 1)
    job.cancel()
    answer = job.result(30)
    assert answer.choices[0].finish_reason == "cancelled"
    assert answer.usage.completion_tokens == 0
    assert smol.ask("Hello", max_tokens=3).choices[0].finish_reason == "length"


def test_cancelling_one_lane_leaves_the_others_alone(tiny: Chat) -> None:
    expected = tiny.text(QUESTIONS[0], max_tokens=120)
    keeper = tiny.submit(QUESTIONS[0], max_tokens=120)
    for _ in range(5):
        victim = tiny.submit(QUESTIONS[1], max_tokens=400)
        wait_for(lambda: running(tiny) >= 1)
        victim.cancel()
        victim.result(30)
    assert keeper.result(30).choices[0].message.content == expected


def test_pacing_leaves_time_to_the_game(tiny: Chat) -> None:
    """Relative: a third of the CPU makes it clearly slower, and the text the same."""

    def seconds(**fields: Any) -> tuple[float, str]:
        answer = tiny.ask("the old stone", max_tokens=150, **fields)
        return answer.atelico.timings.decode_ms, answer.choices[0].message.content or ""

    seconds()
    free, text = seconds()
    paced, paced_text = seconds(atelico={"max_cpu": 0.2})
    framed, framed_text = seconds(atelico={"frame_budget_ms": 3.3})
    assert paced_text == framed_text == text
    assert paced > 2 * free
    assert framed > 2 * free


@pytest.mark.parametrize(
    "options, field",
    [
        ({"priority": "urgent"}, "atelico.priority"),
        ({"max_cpu": 0}, "atelico.max_cpu"),
        ({"max_cpu": 1.5}, "atelico.max_cpu"),
        ({"frame_budget_ms": 20}, "atelico.frame_budget_ms"),
        ({"governor": "maybe"}, "atelico.governor"),
    ],
)
def test_a_wrong_option_is_named(tiny: Chat, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        tiny.submit("the", atelico=options)
    assert caught.value.param == field


def test_the_governor_is_visible_in_the_response(tiny: Chat) -> None:
    governed = tiny.ask(QUESTIONS[0], max_tokens=60, speculative={"proposer": "prompt_lookup"})
    literal = tiny.ask(QUESTIONS[0], max_tokens=60, **DRAFTING)
    assert governed.atelico.speculation.governor is not None
    assert literal.atelico.speculation.governor is None
    assert literal.choices[0].message.content == governed.choices[0].message.content
