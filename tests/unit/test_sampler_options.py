"""Which sampling options apply: the request's, else the model file's, else OpenAI's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atelico.decoding import options
from atelico.decoding.options import build_sampler, pick_seed
from atelico.errors import InvalidRequestError
from atelico.models.gguf import SamplingDefaults
from atelico.protocol.read import decode_request
from atelico.protocol.request import ChatRequest

N_VOCAB = 8


def request(**fields: Any) -> ChatRequest:
    return decode_request({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields})


@pytest.fixture
def given_options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the sampler is made with."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(options, "Sampler", lambda n_vocab, **given: seen.update(given, n_vocab=n_vocab))
    return seen


def test_a_request_without_options_has_openais_defaults(given_options: dict[str, Any]) -> None:
    build_sampler(request(), SamplingDefaults(), N_VOCAB, 1)
    assert given_options["temperature"] == 1.0
    assert given_options["top_p"] == 1.0
    assert given_options["top_k"] == 0
    assert given_options["repetition_penalty"] == 1.0
    assert given_options["logit_bias"] is None


def test_the_files_defaults_apply_where_the_request_is_silent_and_only_there(given_options: dict[str, Any]) -> None:
    defaults = SamplingDefaults(temperature=0.3, top_k=20)
    build_sampler(request(top_k=5), defaults, N_VOCAB, 1)
    assert given_options["temperature"] == 0.3
    assert given_options["top_k"] == 5


def test_a_zero_in_the_request_is_not_silence(given_options: dict[str, Any]) -> None:
    build_sampler(request(temperature=0, top_k=0), SamplingDefaults(temperature=0.3, top_k=20), N_VOCAB, 1)
    assert given_options["temperature"] == 0.0
    assert given_options["top_k"] == 0


def test_a_seed_is_kept_even_if_it_is_zero_and_invented_otherwise() -> None:
    assert pick_seed(request(seed=0)) == 0
    assert pick_seed(request(seed=-(2**63))) == -(2**63)
    assert pick_seed(request()) != pick_seed(request())


def test_the_last_token_of_the_vocabulary_may_be_biased_and_the_next_may_not() -> None:
    row = np.zeros(N_VOCAB, np.float32)
    sampler = build_sampler(request(temperature=0, logit_bias={"7": 5}), SamplingDefaults(), N_VOCAB, 1)
    assert sampler.sample(row, position=0).token == 7
    with pytest.raises(InvalidRequestError, match="token 8; this model's vocabulary ends at 7"):
        build_sampler(request(logit_bias={"8": 5}), SamplingDefaults(), N_VOCAB, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 5e-324},
        {"temperature": 2.0, "top_p": 0.0},
        {"top_k": -1},
        {"top_k": 2**31 - 1},
        {"min_p": 1.0, "top_p": 5e-324},
        {"seed": 2**63 - 1, "n": 128},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 10, "frequency_penalty": -2, "presence_penalty": 2},
    ],
    ids=str,
)
def test_every_value_the_protocol_allows_samples_a_token(fields: dict[str, Any]) -> None:
    asked = request(**fields)
    sampler = build_sampler(asked, SamplingDefaults(), N_VOCAB, pick_seed(asked) + (asked.n or 1) - 1)
    sampler.prime([1, 1, 2])
    sampler.accept(3)
    row = np.linspace(-4, 4, N_VOCAB, dtype=np.float32)
    assert 0 <= sampler.sample(row, position=0, n_logprobs=2).token < N_VOCAB
