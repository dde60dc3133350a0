"""remote::ALIAS gives the same answers in the same shapes as a local model, and fails in words when it must."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from atelico import Atelico, Engine, EngineConfig
from atelico.errors import (
    AtelicoError,
    BusyError,
    ConfigError,
    InvalidRequestError,
    ModelNotFoundError,
    ShuttingDownError,
)
from atelico.protocol.read import decode_request
from atelico.protocol.response import ChatCompletion
from atelico.remote.errors import RemoteAccessError, RemoteRefusedError, RemoteTimeoutError, RemoteUnavailableError
from atelico.remote.options import RemoteOptions, remote_alias
from atelico.remote.translate import upstream_body
from atelico.server.options import ServerOptions
from support.chat import SMOLLM2, Chat
from support.endpoint import Scripted, Step
from support.server import LINE, Running, chat, eventually, running_server

ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
}
OK = Step(body=json.dumps(ANSWER).encode())


def request(**fields: Any) -> dict[str, Any]:
    return {**chat(), "model": "remote::there", **fields}


@pytest.fixture
def local(cluster: Running) -> Iterator[Engine]:
    """An engine whose remote::there is a real server; `npc` is an alias of it."""
    options = RemoteOptions(url=f"{cluster.url}/v1", model=SMOLLM2, dialect="atelico")
    with Engine(EngineConfig(remotes={"there": options}, aliases={"npc": "remote::there"})) as engine:
        yield engine


def engine_for(script: Scripted, **options: Any) -> Engine:
    given = {"retries": 0, "timeout_s": 10.0, **options}
    return Engine(EngineConfig(remotes={"there": RemoteOptions(url=script.url, **given)}, n_ctx=512, n_threads=1))


def answer_of(script: Scripted, fields: dict[str, Any] | None = None, **options: Any) -> ChatCompletion:
    with engine_for(script, **options) as engine:
        return engine.submit(request(**(fields or {}))).result(30)


# --- the same as a local model ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0.9, "seed": 4, "n": 2},
        {"logprobs": True, "top_logprobs": 2},
        {"speculative": {"proposer": "prompt_lookup"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": "yes"}}}},
    ],
)
def test_the_answer_is_the_one_of_a_local_model(local: Engine, smol: Chat, fields: dict[str, Any]) -> None:
    here = smol.engine.submit({**chat(), **fields}).result(60)
    there = local.submit(request(**fields)).result(60)
    assert there.choices == here.choices
    assert there.usage.completion_tokens == here.usage.completion_tokens
    assert there.model == "remote::there"
    assert there.atelico.device == "cpu"  # the endpoint is an atelico: its own report comes through


def test_an_alias_may_lead_elsewhere(local: Engine, smol: Chat) -> None:
    assert local.submit(request(model="npc")).result(60).choices[0].message.content == smol.text(LINE, max_tokens=8)


def test_a_stream_comes_in_pieces_and_joins_to_the_same(local: Engine) -> None:
    whole = local.submit(request()).result(60)
    with Atelico(engine=local) as client:
        stream = client.chat.completions.create(**request(), stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert sum(map(bool, texts)) > 2
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].atelico is not None


@pytest.mark.parametrize("stream", [True, False])
def test_a_cancel_frees_the_lane_there(local: Engine, cluster: Running, stream: bool) -> None:
    job = local.submit(request(max_tokens=900, stream=stream))
    assert eventually(lambda: cluster.busy_lanes() == 1)
    if stream:
        next(chunk for chunk in job.chunks() if chunk.choices[0].delta.content)  # dropping the stream cancels it
    job.cancel()
    answer = job.result(10)
    assert answer.choices[0].finish_reason == "cancelled"
    assert bool(answer.choices[0].message.content) == stream
    assert eventually(lambda: cluster.open_requests() == 0, 10)


def test_a_cancel_in_the_same_tick_ends_the_job(local: Engine) -> None:
    job = local.submit(request(max_tokens=900))
    job.cancel()
    assert job.result(10).choices[0].finish_reason == "cancelled"


def test_closing_the_engine_ends_what_runs(cluster: Running) -> None:
    options = RemoteOptions(url=f"{cluster.url}/v1", model=SMOLLM2)
    engine = Engine(EngineConfig(remotes={"there": options}))
    job = engine.submit(request(max_tokens=900))
    assert eventually(lambda: cluster.busy_lanes() == 1)
    assert engine.close(10)
    with pytest.raises(ShuttingDownError):
        job.result(10)
    assert eventually(lambda: cluster.open_requests() == 0, 10)


def test_the_server_passes_remote_models_on(local: Engine, smol: Chat) -> None:
    with running_server(local, ServerOptions(port=0, grace_s=1)) as server:
        answer = server.post(json=request()).json()
        assert answer["choices"][0]["message"]["content"] == smol.text(LINE, max_tokens=8)
        names = [model["id"] for model in httpx.get(f"{server.url}/v1/models").json()["data"]]
        assert "remote::there" in names


# --- what is sent -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "kept", "dropped"),
    [
        ("openai", set(), {"top_k", "min_p", "repetition_penalty", "repeat_penalty", "speculative", "atelico"}),
        ("vllm", {"top_k", "min_p", "repetition_penalty"}, {"speculative", "atelico", "cache_prompt"}),
        ("llama-server", {"top_k", "repeat_penalty", "cache_prompt"}, {"repetition_penalty", "speculative"}),
        ("atelico", {"top_k", "speculative", "atelico", "cache_prompt"}, set()),
    ],
)
def test_options_are_translated_for_each_dialect(
    dialect: Any, kept: set[str], dropped: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    extras = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "cache_prompt": False, "speculative": {}}
    checked = decode_request(request(**extras, atelico={"priority": "low"}, stop=None))
    with caplog.at_level(logging.INFO):
        body = json.loads(upstream_body(checked, "there", RemoteOptions(url="http://x/v1", dialect=dialect)))
    assert kept <= set(body)
    assert not dropped & set(body)
    assert body["model"] == "there" and body["temperature"] == 0 and "stop" not in body
    assert bool(caplog.records) == bool(dropped)


def test_the_key_comes_from_the_environment(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "k3y")
    scripted.steps = [OK]
    answer = answer_of(scripted, api_key_env="OUR_KEY", headers={"x-game": "quest"}, model="big")
    assert answer.choices[0].message.content == "Hello."
    assert answer.usage.total_tokens == 7
    assert (answer.atelico.device, answer.atelico.speculation.active) == ("remote", False)
    sent = {name.lower(): value for name, value in scripted.headers[0].items()}
    assert (sent["authorization"], sent["x-game"]) == ("Bearer k3y", "quest")
    assert scripted.received[0]["model"] == "big"


# --- when it does not work ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RemoteRefusedError),
        (404, RemoteRefusedError),
        (422, RemoteRefusedError),
        (401, RemoteAccessError),
        (403, RemoteAccessError),
        (429, BusyError),
        (500, RemoteUnavailableError),
        (503, RemoteUnavailableError),
        (302, RemoteRefusedError),
    ],
)
def test_every_status_has_its_error_with_the_endpoint_s_words(
    scripted: Scripted, status: int, kind: type[AtelicoError]
) -> None:
    scripted.steps = [Step(status, b'{"error": {"message": "no such thing", "param": "model"}}')]
    with pytest.raises(kind, match=r"remote::there.*no such thing"):
        answer_of(scripted)


@pytest.mark.parametrize(
    "step",
    [
        Step(body=b"<html>hello</html>"),
        Step(body=b'{"choices": 3}'),
        Step(body=b'{"choices": [', cut=True),
        Step(body=b"\xff\xfe"),
        Step(events=[b'{"choices": [{"delta": {"content": 5}}]}']),
        Step(events=[b'{"error": {"message": "engine died"}}']),
    ],
)
def test_what_is_no_answer_is_an_error(scripted: Scripted, step: Step) -> None:
    scripted.steps = [step]
    with pytest.raises(RemoteUnavailableError):
        answer_of(scripted, {"stream": bool(step.events)})


def test_a_stream_without_an_end_counts_as_cut(scripted: Scripted) -> None:
    scripted.steps = [Step(events=[b'{"choices": [{"delta": {"content": "Hel"}}]}'])]
    answer = answer_of(scripted, {"stream": True})
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("Hel", "length")


def test_tool_calls_come_through_streamed_or_whole(scripted: Scripted) -> None:
    whole = {"id": "call_1", "type": "function", "function": {"name": "open", "arguments": '{"door": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [whole]}
    pieces: list[dict[str, Any]] = [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "open", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"door"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]
    events = [json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}).encode() for piece in pieces]
    events.append(b'{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}')
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    tool = {"type": "function", "function": {"name": "open"}}
    for step in (Step(body=json.dumps({"choices": [choice]}).encode()), Step(events=events)):
        scripted.steps = [step]
        answer = answer_of(scripted, {"stream": bool(step.events), "tools": [tool]})
        calls = answer.choices[0].message.tool_calls
        assert calls is not None and answer.choices[0].message.content is None
        assert [(call.id, call.function.name, call.function.arguments) for call in calls] == [
            ("call_1", "open", '{"door": 1}')
        ]
        assert answer.choices[0].finish_reason == "tool_calls"


def test_nobody_at_the_address_is_an_error_that_names_it() -> None:
    remotes = {"there": RemoteOptions(url="http://127.0.0.1:9/v1", retries=0)}
    with (
        Engine(EngineConfig(remotes=remotes)) as engine,
        pytest.raises(RemoteUnavailableError, match=r"127\.0\.0\.1:9"),
    ):
        engine.submit(request()).result(30)


def test_a_silent_endpoint_is_given_up(scripted: Scripted) -> None:
    scripted.steps = [Step(hang_s=3.0)]
    started = time.monotonic()
    with pytest.raises(RemoteTimeoutError):
        answer_of(scripted, timeout_s=0.3)
    assert time.monotonic() - started < 2.5


def test_a_passing_failure_is_tried_again(scripted: Scripted) -> None:
    scripted.steps = [Step(503), Step(429), OK]
    assert answer_of(scripted, retries=2).choices[0].message.content == "Hello."
    assert len(scripted.received) == 3


def test_a_refusal_is_not_tried_again(scripted: Scripted) -> None:
    scripted.steps = [Step(400), OK]
    with pytest.raises(RemoteRefusedError):
        answer_of(scripted, retries=3)
    assert len(scripted.received) == 1


def test_after_the_first_text_there_is_no_second_attempt(scripted: Scripted) -> None:
    broken = Step(events=[b'{"choices": [{"delta": {"content": "Hel"}}]}', b"garbage"])
    scripted.steps = [broken, OK]
    with pytest.raises(RemoteUnavailableError):
        answer_of(scripted, {"stream": True}, retries=3)
    assert len(scripted.received) == 1


@pytest.mark.parametrize("stream", [True, False])
def test_a_fallback_answers_locally_and_says_so(scripted: Scripted, smol: Chat, stream: bool) -> None:
    scripted.steps = [Step(503)]
    with engine_for(scripted, fallback=SMOLLM2) as engine:
        job = engine.submit(request(stream=stream))
        text = "".join(c.delta.content or "" for chunk in job.chunks() for c in chunk.choices)
        answer = job.result(60)
    assert answer.choices[0].message.content == smol.text(LINE, max_tokens=8)
    assert text == answer.choices[0].message.content
    assert answer.model == SMOLLM2
    assert answer.atelico.warnings == [f"remote::there did not answer; {SMOLLM2} did."]
    assert answer.atelico.device == "cpu"


def test_a_fallback_can_be_cancelled(scripted: Scripted) -> None:
    scripted.steps = [Step(503)]
    with engine_for(scripted, fallback=SMOLLM2) as engine:
        job = engine.submit(request(max_tokens=400, stream=True))
        next(chunk for chunk in job.chunks() if chunk.choices[0].delta.content)
        job.cancel()
        assert job.result(10).choices[0].finish_reason == "cancelled"


def test_a_fallback_that_does_not_exist_is_an_error(scripted: Scripted) -> None:
    scripted.steps = [Step(503)]
    with pytest.raises(ModelNotFoundError, match="no-such-model"):
        answer_of(scripted, fallback="no-such-model")


def test_an_unknown_alias_says_what_is_configured(local: Engine) -> None:
    with pytest.raises(ModelNotFoundError, match="Configured: remote::there"):
        local.submit(request(model="remote::nowhere"))


def test_a_raw_prompt_is_refused(local: Engine) -> None:
    with pytest.raises(InvalidRequestError, match="raw prompts"):
        local.submit(request(), prompt="Once")


@pytest.mark.parametrize(
    ("model", "alias"),
    [
        ("remote::there", "there"),
        (" REMOTE::there ", "there"),
        ("in-memory::npc", "there"),
        ("npc", "there"),
        ("loop", None),
        ("SmolLM2", None),
        ("in-memory::x", None),
    ],
)
def test_names_that_mean_an_endpoint(model: str, alias: str | None) -> None:
    aliases = {"npc": "boss", "boss": "remote::there", "loop": "pool", "pool": "loop"}
    assert remote_alias(model, aliases) == alias


def test_a_wrong_option_in_the_configuration_is_named(tmp_path: Path) -> None:
    from atelico.config import load_config
    from atelico.errors import ConfigError

    file = tmp_path / "config.toml"
    file.write_text('[remotes.there]\nurl = "ftp://x"\n')
    with pytest.raises(ConfigError, match=r"remotes.*url"):
        load_config(file, {})


def test_without_an_http_client_a_remote_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "atelico.remote.client", None)  # as in a bundle without --remote
    with Engine(EngineConfig()) as engine, pytest.raises(ConfigError, match="--remote"):
        engine.submit({"model": "remote::tavern", "messages": [{"role": "user", "content": "Hi"}]})
