"""Engine.embed and client.embeddings: right vectors, limits, and models of the wrong kind."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import bert_reference
import numpy as np
import pytest

from atelico import Atelico, Engine, EngineConfig
from atelico.errors import (
    AtelicoError,
    BusyError,
    ContextOverflowError,
    InvalidRequestError,
    ModelLoadError,
    ModelNotFoundError,
    ShuttingDownError,
)
from support.tiny_encoder import CLS, N_CTX, N_EMBD, SEP, TOKENS, WORDS

MILL, DRAGON = "the old mill by the river", "a red dragon sleeps by the gold"
LONGEST = " ".join([WORDS[0]] * (N_CTX - 2))
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "the miller"}], "max_tokens": 4, "temperature": 0}


def ids(text: str) -> list[int]:
    """The tokens of a text of known words."""
    return [TOKENS.index(token) for token in (CLS, *("▁" + word for word in text.split()), SEP)]


@pytest.mark.parametrize(("model", "first_only"), [("bert", False), ("bert-cls", True), ("bert-unpooled", False)])
@pytest.mark.parametrize("text", ["", "mill", MILL, LONGEST], ids=["empty", "one word", "sentence", "longest"])
def test_vectors_are_those_of_the_definition(engine: Engine, model: str, first_only: bool, text: str) -> None:
    embedded = engine.embed(model, text)
    assert embedded.token_counts == (len(ids(text)),)
    assert embedded.vectors.shape == (1, N_EMBD) and embedded.vectors.dtype == np.float32
    expected = bert_reference.embedding(ids(text), first_only=first_only)
    np.testing.assert_allclose(embedded.vectors[0], expected, atol=5e-3)


@pytest.mark.parametrize("model", ["bert", "causal"])
def test_a_text_has_one_vector_alone_and_among_others(engine: Engine, model: str) -> None:
    alone = engine.embed(model, MILL).vectors[0]
    among = engine.embed(model, [DRAGON, MILL, "key", MILL, " ".join([MILL] * 8)])
    np.testing.assert_array_equal(alone, among.vectors[1])
    np.testing.assert_array_equal(alone, among.vectors[3])
    assert len(among.token_counts) == 5
    np.testing.assert_allclose(np.linalg.norm(among.vectors, axis=1), 1, rtol=1e-5)
    assert alone @ among.vectors[0] < 0.99


def test_buffers_grow_for_a_long_text_and_change_no_vector(fresh: Engine) -> None:
    before = fresh.embed("causal", MILL).vectors
    long = fresh.embed("causal", " ".join([MILL] * 120))
    assert 512 < long.token_counts[0] <= 1024
    assert np.isfinite(long.vectors).all()
    np.testing.assert_array_equal(fresh.embed("causal", MILL).vectors, before)


def test_a_text_that_is_too_long_is_named_and_the_next_request_works(engine: Engine) -> None:
    with pytest.raises(ContextOverflowError, match=rf"input\[1\] has {N_CTX + 1} tokens.* at most {N_CTX}") as caught:
        engine.embed("bert", [MILL, f"{LONGEST} mill"])
    assert caught.value.param == "input[1]"
    assert len(engine.embed("bert", [MILL, DRAGON]).vectors) == 2


def test_the_configured_context_bounds_a_text(folder: Path) -> None:
    with Engine(EngineConfig(model_folders=[str(folder)], n_threads=1, n_ctx=8)) as engine:
        assert engine.embed("bert", MILL).token_counts == (8,)
        with pytest.raises(ContextOverflowError):
            engine.embed("bert", f"{MILL} key")


def test_an_empty_text_that_has_no_token_is_an_error(engine: Engine) -> None:
    with pytest.raises(InvalidRequestError, match=r"input\[1\] has no tokens") as caught:
        engine.embed("causal", [MILL, ""])
    assert caught.value.param == "input[1]"


@pytest.mark.parametrize(
    ("texts", "param"), [([], "input"), ([MILL, 3], "input[1]"), (["\ud800"], "input[0]"), (b"mill", "input")]
)
def test_what_is_no_text_is_an_error_that_names_it(engine: Engine, texts: Any, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        engine.embed("bert", texts)
    assert caught.value.param == param


def test_control_tokens_in_a_text_are_plain_text(engine: Engine) -> None:
    (count,) = engine.embed("bert", SEP).token_counts
    assert count > len([CLS, SEP, SEP])


def test_a_chat_model_says_to_use_an_embedding_model(fresh: Engine) -> None:
    for _ in ("not loaded", "loaded"):
        with pytest.raises(InvalidRequestError, match=r"chat model.* Use an embedding model") as caught:
            fresh.embed("chat", MILL)
        assert (caught.value.param, caught.value.code) == ("model", "unsupported_model")
        assert fresh.chat_completion({"model": "chat", **CHAT}, 60).usage.completion_tokens > 0


def test_an_embedding_model_says_to_use_a_chat_model(fresh: Engine) -> None:
    for _ in ("not loaded", "loaded"):
        with pytest.raises(ModelLoadError, match="Use a chat model") as caught:
            fresh.chat_completion({"model": "bert", **CHAT}, 60)
        assert caught.value.param == "model"
        assert len(fresh.embed("bert", MILL).vectors) == 1
    assert fresh.chat_completion({"model": "chat", **CHAT}, 60).usage.completion_tokens > 0


def test_chats_and_texts_at_once_all_get_the_right_answer(fresh: Engine) -> None:
    """Whoever comes first decides nothing: the chats fail, the texts are embedded."""
    outcomes: list[str] = []

    def chat() -> None:
        try:
            fresh.chat_completion({"model": "bert", **CHAT}, 60)
        except ModelLoadError:
            outcomes.append("refused")

    def embed() -> None:
        outcomes.append(f"{len(fresh.embed('bert', MILL, 60).vectors)} vector")

    threads = [threading.Thread(target=target) for target in (chat, embed) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["1 vector"] * 8 + ["refused"] * 8


def test_a_reranker_is_refused(engine: Engine) -> None:
    with pytest.raises(ModelLoadError, match="reranker"):
        engine.embed("reranker", MILL, 60)
    assert engine.model_state("reranker").state == "failed"


def test_models_that_are_not_here_are_refused(engine: Engine) -> None:
    with pytest.raises(ModelNotFoundError):
        engine.embed("none", MILL)
    with pytest.raises(InvalidRequestError, match="another server"):
        engine.embed("remote::far", MILL)


def test_a_damaged_file_is_a_typed_error_and_works_once_it_is_mended(fresh: Engine, folder: Path) -> None:
    path, whole = folder / "mended.gguf", (folder / "bert.gguf").read_bytes()
    path.write_bytes(whole[:-4096])
    with pytest.raises(AtelicoError):
        fresh.embed("mended", MILL, 60)
    path.write_bytes(whole)
    np.testing.assert_array_equal(fresh.embed("mended", MILL).vectors, fresh.embed("bert", MILL).vectors)


def test_an_embedding_model_is_loaded_and_unloaded_as_any_other(fresh: Engine) -> None:
    assert fresh.model_state("bert").state is None
    fresh.load_model("bert")
    fresh.wait_for_model("bert", 60)
    assert (fresh.model_state("bert").state, fresh.model_state("bert").progress) == ("ready", 1.0)
    assert [(load.model, load.n_waiting, load.loop.n_lanes) for load in fresh.loads()] == [("bert", 0, 0)]
    assert fresh.unload_model("bert", 60)
    assert fresh.model_state("bert").state is None
    assert len(fresh.embed("bert", MILL).vectors) == 1


def test_a_long_list_does_not_keep_a_short_one_waiting(engine: Engine) -> None:
    long = engine.submit_texts("causal", [f"{MILL} {i}" for i in range(2000)])
    short = engine.submit_texts("causal", MILL)
    assert len(short.result(60).vectors) == 1
    assert not long.done()
    assert long.cancel()
    with pytest.raises(CancelledError):
        long.result(0)
    assert len(engine.embed("causal", MILL, 60).vectors) == 1


def test_an_engine_that_closes_ends_what_it_embeds(fresh: Engine) -> None:
    futures = [fresh.submit_texts("causal", [f"{MILL} {i}" for i in range(2000)]) for _ in range(3)]
    assert fresh.close(60)
    assert [type(future.exception(0)) for future in futures] == [ShuttingDownError] * 3
    with pytest.raises(ShuttingDownError):
        fresh.embed("causal", MILL)


def test_no_more_requests_wait_than_may(folder: Path) -> None:
    with Engine(EngineConfig(model_folders=[str(folder)], n_threads=1, max_queue=1)) as engine:
        first = engine.submit_texts("causal", [f"{MILL} {i}" for i in range(2000)])
        with pytest.raises(BusyError):
            engine.submit_texts("causal", MILL)
        first.cancel()
        assert len(engine.embed("causal", MILL, 60).vectors) == 1


def test_threads_share_one_model_and_get_their_own_vectors(engine: Engine) -> None:
    texts = [f"{word} by the river" for word in WORDS[:8]]
    expected = engine.embed("bert", texts).vectors
    got: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda i=i: got.update({i: engine.embed("bert", texts[i], 60).vectors[0]}))
        for i in range(len(texts))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    np.testing.assert_array_equal(np.stack([got[i] for i in range(len(texts))]), expected)


def test_a_time_limit_ends_the_request(engine: Engine) -> None:
    with pytest.raises(TimeoutError):
        engine.embed("causal", [f"{MILL} {i}" for i in range(2000)], timeout=0.01)
    assert len(engine.embed("causal", MILL, 60).vectors) == 1


# --- client.embeddings --------------------------------------------------------------------------------------------


def test_the_client_answers_in_openai_s_shape(engine: Engine) -> None:
    client = Atelico(engine=engine)
    answer = client.embeddings.create(model="bert", input=[MILL, DRAGON], user="quest-7")
    assert (answer.object, answer.model) == ("list", "bert")
    assert [(item.object, item.index) for item in answer.data] == [("embedding", 0), ("embedding", 1)]
    expected = engine.embed("bert", [MILL, DRAGON])
    np.testing.assert_array_equal([item.embedding for item in answer.data], expected.vectors)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == sum(expected.token_counts)


def test_base64_is_the_same_vector(engine: Engine) -> None:
    answer = Atelico(engine=engine).embeddings.create(model="bert", input=MILL, encoding_format="base64")
    text = answer.data[0].embedding
    assert isinstance(text, str)
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(text), "<f4"), engine.embed("bert", MILL).vectors[0])


def test_fewer_dimensions_are_the_first_ones_of_length_one(engine: Engine) -> None:
    client = Atelico(engine=engine)
    first = engine.embed("bert", MILL).vectors[0, :8]
    answer = client.embeddings.create(model="bert", input=MILL, dimensions=8)
    np.testing.assert_allclose(answer.data[0].embedding, first / np.linalg.norm(first), rtol=1e-5)
    with pytest.raises(InvalidRequestError, match=f"the model has {N_EMBD}") as caught:
        client.embeddings.create(model="bert", input=MILL, dimensions=N_EMBD + 1)
    assert caught.value.param == "dimensions"


@pytest.mark.parametrize(
    "fields",
    [
        {"input": []},
        {"input": [MILL, 3]},
        {"input": {"text": MILL}},
        {"input": ["\ud800"]},
        {"input": object()},
        {"input": MILL, "dimensions": 0},
        {"input": MILL, "encoding_format": "int8"},
        {"input": [MILL] * 2049},
    ],
)
def test_a_wrong_field_is_a_typed_error(engine: Engine, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError):
        Atelico(engine=engine).embeddings.create(model="bert", **fields)
