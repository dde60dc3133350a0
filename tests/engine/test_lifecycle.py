"""Engines from their creation to their end, whatever happens meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from atelico import Engine, EngineConfig
from atelico.decoding import loaded as loaded_module
from atelico.decoding import worker
from atelico.decoding.loaded import LoadedModel
from atelico.errors import AtelicoError, BusyError, ShuttingDownError
from atelico.job import Job
from support.chat import SMOLLM2, Chat, streamed_text

pytestmark = pytest.mark.usefixtures("smollm2_file")
CONFIG = EngineConfig(n_ctx=1024, n_threads=1)
WORDS = ["falcon", "river", "candle", "dragon"]


def secret(word: str) -> str:
    """A question that even a small model answers with `word`."""
    return f"The secret word is {word}. What is the secret word?"


@pytest.fixture
def fresh() -> Iterator[Chat]:
    """An engine of one's own, nothing loaded yet."""
    with Engine(CONFIG) as engine:
        yield Chat(engine, SMOLLM2)


@pytest.mark.parametrize("delay_ms", [0, 1, 10, 100])
@pytest.mark.parametrize("phase", ["load", "prefill", "decode"])
def test_closing_in_any_phase_ends_every_job_and_returns(fresh: Chat, phase: str, delay_ms: int) -> None:
    prompt = "Hi" if phase == "decode" else "The old mill. " * 200
    if phase != "load":
        fresh.engine.wait_for_model(SMOLLM2, 60)
    job = fresh.submit(prompt, max_tokens=300, logit_bias={"2": -100})
    if phase == "decode":
        next(chunks := job.chunks())
        assert chunks
    time.sleep(delay_ms / 1000)
    assert fresh.engine.close(timeout=20)
    with pytest.raises(ShuttingDownError):
        job.result(0)


def test_closing_during_a_long_prompt_does_not_wait_for_it(fresh: Chat) -> None:
    fresh.engine.wait_for_model(SMOLLM2, 60)
    started = time.perf_counter()
    fresh.ask("The old mill. " * 200, max_tokens=1)
    whole = time.perf_counter() - started
    fresh.submit("A young mill. " * 200, max_tokens=1)
    time.sleep(whole / 8)
    started = time.perf_counter()
    assert fresh.engine.close(timeout=20)
    assert time.perf_counter() - started < whole / 3


def test_engines_come_and_go_in_one_process_without_growing_it() -> None:
    process = psutil.Process()
    sizes, texts = [], set()
    for _ in range(6):
        with Engine(CONFIG) as engine:
            texts.add(Chat(engine, SMOLLM2).text(secret("falcon")))
        gc.collect()
        sizes.append(process.memory_info().rss)
    assert len(texts) == 1
    assert "falcon" in texts.pop().lower()
    # One lost copy of weights or memory is about 100 MB.
    assert sizes[-1] - sizes[1] < 60 * 2**20


def test_an_unloaded_model_is_loaded_again_when_it_is_asked(fresh: Chat) -> None:
    first = fresh.text("Say hello.")
    assert fresh.engine.model_state(SMOLLM2).state == "ready"
    assert fresh.engine.unload_model(SMOLLM2, timeout=20)
    assert fresh.engine.model_state(SMOLLM2).state is None
    assert not fresh.engine.unload_model(SMOLLM2, timeout=20)
    assert fresh.text("Say hello.") == first


def test_unloading_ends_the_requests_of_the_model_and_of_no_other(fresh: Chat, smol: Chat) -> None:
    mine, other = fresh.submit("Count.", max_tokens=400, logit_bias={"2": -100}), smol.submit("Say hello.")
    fresh.engine.wait_for_model(SMOLLM2, 60)
    assert fresh.engine.unload_model(SMOLLM2, timeout=20)
    with pytest.raises(ShuttingDownError):
        mine.result(0)
    assert other.result(60).choices[0].message.content


def test_a_closed_engine_refuses_and_may_be_closed_again(fresh: Chat) -> None:
    assert fresh.engine.close(timeout=20)
    assert fresh.engine.close(timeout=20)
    with pytest.raises(ShuttingDownError, match="closed"):
        fresh.submit("Hi")


def test_closing_wakes_threads_that_wait_for_answers(fresh: Chat) -> None:
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(fresh.ask, f"Tell story {i}.", max_tokens=300) for i in range(6)]
        fresh.engine.wait_for_model(SMOLLM2, 60)
        time.sleep(0.1)
        assert fresh.engine.close(timeout=20)
        errors = [call.exception(20) for call in waiting]
    assert all(isinstance(error, ShuttingDownError) for error in errors)


def test_threads_that_start_together_load_the_model_once(fresh: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    load = loaded_module.load

    def counted(*arguments: Any) -> LoadedModel:
        loads.append("load")
        return load(*arguments)

    monkeypatch.setattr(worker, "load", counted)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: fresh.text("Say hello.", max_tokens=6), range(4)))
    assert loads == ["load"]
    assert all(texts)


def test_many_threads_at_once_each_get_the_answer_to_their_own_question(smol: Chat) -> None:
    words = WORDS * 2
    with ThreadPoolExecutor(8) as pool:
        for word, answer in zip(words, pool.map(smol.text, map(secret, words)), strict=True):
            assert word in answer.lower()


def test_streams_that_run_at_once_do_not_mix(smol: Chat) -> None:
    with ThreadPoolExecutor(4) as pool:
        for word, chunks in zip(WORDS, pool.map(smol.chunks, map(secret, WORDS)), strict=True):
            assert word in streamed_text(chunks).lower()


def test_a_player_who_mashes_enter_gets_the_last_answer(smol: Chat) -> None:
    jobs: list[Job] = []
    for _ in range(10):
        for earlier in jobs:
            earlier.cancel()
        jobs.append(smol.submit(secret("river")))
    assert "river" in (jobs[-1].result(60).choices[0].message.content or "").lower()
    assert {job.result(60).choices[0].finish_reason for job in jobs[:-1]} == {"cancelled"}


def test_one_request_too_many_is_refused_and_the_others_are_answered() -> None:
    with Engine(EngineConfig(n_ctx=512, n_threads=1, max_queue=2)) as engine:
        chat = Chat(engine, SMOLLM2)
        first, second = chat.submit("Say hello.", max_tokens=4), chat.submit("Say hello.", max_tokens=4)
        with pytest.raises(BusyError):
            chat.submit("Say hello.")
        assert first.result(60).choices[0].message.content
        assert second.result(60).choices[0].message.content
        assert chat.text("Say hello.", max_tokens=4)


def test_a_timeout_cancels_the_request_and_leaves_the_engine_usable(smol: Chat) -> None:
    with pytest.raises(TimeoutError):
        smol.engine.chat_completion(smol.request("Tell a long story.", max_tokens=500), timeout=0.05)
    assert smol.text("Say hello.")


def test_a_reader_that_leaves_early_stops_the_decoding(smol: Chat) -> None:
    job = smol.submit("Count to a hundred.", max_tokens=900, logit_bias={"2": -100})
    for chunk in job.chunks():
        if chunk.choices[0].delta.content:
            break
    answer = job.result(30)
    assert answer.choices[0].finish_reason == "cancelled"
    assert answer.usage.completion_tokens < 900


def test_the_state_of_a_model_follows_its_loading(fresh: Chat) -> None:
    assert fresh.engine.model_state(SMOLLM2).state is None
    fresh.engine.load_model(SMOLLM2)
    assert fresh.engine.model_state(SMOLLM2).state in ("loading", "ready")
    fresh.engine.wait_for_model(SMOLLM2, 60)
    state = fresh.engine.model_state(SMOLLM2)
    assert (state.state, state.progress, state.error) == ("ready", 1.0, None)


@pytest.mark.parametrize("ending", ["pass", "job.result()", "sys.exit(0)", "del engine, job; gc.collect()"])
def test_a_process_that_ends_without_closing_ends_cleanly(ending: str) -> None:
    script = f"""
        import gc, sys
        from atelico import Engine, EngineConfig
        engine = Engine(EngineConfig(n_ctx=512, n_threads=1))
        request = {{"model": "{SMOLLM2}", "messages": [{{"role": "user", "content": "Hi"}}], "max_tokens": 300,
                    "response_format": {{"type": "json_object"}}}}
        engine.wait_for_model("{SMOLLM2}")
        job = engine.submit({{**request, "max_tokens": 8}} if "result" in "{ending}" else request)
        {ending}
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "GOMP_SPINCOUNT": "500"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_error_of_one_request_is_not_another_requests_error(smol: Chat) -> None:
    with ThreadPoolExecutor(4) as pool:
        wrong = [pool.submit(smol.ask, "yes " * 2000) for _ in range(2)]
        right = [pool.submit(smol.text, secret("falcon")) for _ in range(2)]
        assert all(isinstance(call.exception(60), AtelicoError) for call in wrong)
        assert all("falcon" in call.result(60).lower() for call in right)
