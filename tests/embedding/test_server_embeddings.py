"""POST /v1/embeddings with the unmodified openai package and with plain HTTP."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import openai
import pytest

from atelico import Engine
from atelico.server.options import ServerOptions
from support.server import Running, eventually, running_server
from support.tiny_encoder import N_CTX, WORDS

MILL, DRAGON = "the old mill by the river", "a red dragon sleeps by the gold"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "the miller"}], "max_tokens": 4, "temperature": 0}


@pytest.mark.parametrize("options", [{}, {"encoding_format": "float"}], ids=["base64 by default", "float"])
def test_the_openai_package_gets_the_engine_s_vectors(
    openai_client: openai.OpenAI, engine: Engine, options: dict[str, Any]
) -> None:
    answer = openai_client.embeddings.create(model="bert", input=[MILL, DRAGON, ""], **options)
    expected = engine.embed("bert", [MILL, DRAGON, ""])
    np.testing.assert_array_equal(np.array([item.embedding for item in answer.data], np.float32), expected.vectors)
    assert [item.index for item in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(expected.token_counts)
    assert (answer.object, answer.model) == ("list", "bert")


def test_one_text_and_fewer_dimensions(openai_client: openai.OpenAI) -> None:
    (item,) = openai_client.embeddings.create(model="bert", input=MILL, dimensions=4).data
    assert len(item.embedding) == 4
    assert np.linalg.norm(item.embedding) == pytest.approx(1)


@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3]]], ids=["one", "several"])
def test_token_ids_are_refused(openai_client: openai.OpenAI, tokens: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.embeddings.create(model="bert", input=tokens)
    assert str(caught.value.param).startswith("input")


def test_a_text_that_is_too_long_is_named(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.embeddings.create(model="bert", input=[MILL, " ".join([WORDS[0]] * N_CTX)])
    assert (caught.value.param, caught.value.code) == ("input[1]", "context_length_exceeded")


def test_models_of_the_wrong_kind_are_refused_and_the_next_request_works(openai_client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.embeddings.create(model="chat", input=MILL)
    assert (caught.value.param, caught.value.code) == ("model", "unsupported_model")
    with pytest.raises(openai.BadRequestError) as caught:
        openai_client.chat.completions.create(model="bert", **CHAT)
    assert caught.value.param == "model"
    with pytest.raises(openai.NotFoundError):
        openai_client.embeddings.create(model="none", input=MILL)
    assert openai_client.chat.completions.create(model="chat", **CHAT).choices
    assert openai_client.embeddings.create(model="bert", input=MILL).data


def test_health_and_metrics_know_embedding_models(server: Running) -> None:
    answer = server.post("/v1/embeddings", json={"model": "bert", "input": MILL}).raise_for_status().json()
    with server.http() as http:
        assert http.get("/health").json()["models"]["bert"] == "ready"
        metrics = http.get("/metrics").text
    assert 'atelico_requests_total{code="200",endpoint="/v1/embeddings"}' in metrics
    assert 'atelico_queue_length{model="bert"} 0.0' in metrics
    (counted,) = re.findall(r'^atelico_prompt_tokens_total\{model="bert"\} ([\d.]+)$', metrics, re.MULTILINE)
    assert float(counted) >= answer["usage"]["prompt_tokens"] > 0


def test_a_request_beyond_the_time_limit_is_a_504_and_stops(folder: Any, fresh: Engine) -> None:
    fresh.wait_for_model("causal", 60)
    with running_server(fresh, ServerOptions(port=0, request_timeout_s=0.05, grace_s=1.0)) as server:
        response = server.post("/v1/embeddings", json={"model": "causal", "input": [MILL] * 2000})
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "deadline_exceeded"
        assert eventually(lambda: server.open_requests() == 0)


def test_a_client_that_hangs_up_stops_its_request(fresh: Engine) -> None:
    import httpx

    fresh.wait_for_model("causal", 60)
    with running_server(fresh, ServerOptions(port=0, grace_s=1.0)) as server:
        with server.http() as http, pytest.raises(httpx.ReadTimeout):
            http.post("/v1/embeddings", json={"model": "causal", "input": [MILL] * 2000}, timeout=0.1)
        assert eventually(lambda: server.open_requests() == 0)
        assert server.post("/v1/embeddings", json={"model": "causal", "input": MILL}).status_code == 200
