"""From a request to a sampler: which options apply, the request's own or the model's defaults."""

from __future__ import annotations

import secrets

from atelico._native import Sampler
from atelico.errors import InvalidRequestError
from atelico.models.gguf import SamplingDefaults
from atelico.protocol.request import ChatRequest

# OpenAI's defaults; a model file may carry its own (its SamplingDefaults), a request overrides both.
DEFAULT_TEMPERATURE = 1.0


def pick_seed(request: ChatRequest) -> int:
    """The request's seed, else a random one."""
    return request.seed if request.seed is not None else secrets.randbits(63)


def pick_temperature(request: ChatRequest, defaults: SamplingDefaults) -> float:
    """The request's temperature, else the model's, else OpenAI's."""
    return _first(request.temperature, defaults.temperature, otherwise=DEFAULT_TEMPERATURE)


def build_sampler(request: ChatRequest, defaults: SamplingDefaults, n_vocab: int, seed: int) -> Sampler:
    """The sampler of one choice.

    Raises:
        InvalidRequestError: `logit_bias` names a token the vocabulary has not.
    """
    biases = request.token_biases()
    for token in biases:
        if token >= n_vocab:
            raise InvalidRequestError(
                f"logit_bias names token {token}; this model's vocabulary ends at {n_vocab - 1}.", param="logit_bias"
            )
    return Sampler(
        n_vocab,
        temperature=pick_temperature(request, defaults),
        top_k=int(_first(request.top_k, defaults.top_k, otherwise=0)),
        top_p=_first(request.top_p, defaults.top_p, otherwise=1.0),
        min_p=_first(request.min_p, defaults.min_p, otherwise=0.0),
        repetition_penalty=_first(request.repetition_penalty, defaults.repetition_penalty, otherwise=1.0),
        frequency_penalty=_first(request.frequency_penalty, otherwise=0.0),
        presence_penalty=_first(request.presence_penalty, otherwise=0.0),
        logit_bias=biases or None,
        seed=seed,
    )


def _first(*candidates: float | None, otherwise: float) -> float:
    return next((value for value in candidates if value is not None), otherwise)
