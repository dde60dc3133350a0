"""The limit: llama_decode in a loop with llama.cpp's samplers and nothing around it. Renders all prompts."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import llama_cpp
import msgspec
import numpy as np

from atelico.models.gguf import read_gguf
from atelico.models.template import ChatTemplate
from atelico.protocol.request import Message
from atelico.runtime.model import Model, ModelOptions
from benchmarks.wire import Answer, Ask, Load

N_BATCH = 512


class Engine:
    """Adapter. Greedy choices are NumPy's argmax over the row, the cheapest there is; no text is made."""

    def load(self, load: Load) -> None:
        """Load a model."""
        self._info = read_gguf(Path(load.model))
        self._model = Model(Path(load.model), ModelOptions())
        parameters = llama_cpp.llama_context_default_params()
        parameters.n_ctx = load.n_ctx
        parameters.n_batch = parameters.n_ubatch = N_BATCH
        parameters.n_outputs_max = 1
        parameters.n_threads = parameters.n_threads_batch = load.n_threads
        parameters.flash_attn_type = 1
        parameters.no_perf = True
        self._context = llama_cpp.llama_init_from_model(self._model.handle, parameters)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._kept: list[int] = []

    def render(self, messages: list[dict[str, Any]]) -> tuple[str, list[int]]:
        """A dialogue as the model's prompt: text and tokens."""
        vocabulary = self._model.vocabulary
        template = ChatTemplate.for_model(
            self._info,
            bos_token=vocabulary.text(vocabulary.bos) if vocabulary.bos is not None else "",
            eos_token=vocabulary.text(vocabulary.eos) if vocabulary.eos is not None else "",
        )
        text = template.render(msgspec.convert(messages, list[Message]))
        return text, self.tokenize(text)

    def tokenize(self, text: str) -> list[int]:
        """The tokens of a prompt."""
        vocabulary = self._model.vocabulary
        tokens = vocabulary.tokenize(text, special=True)
        if vocabulary.adds_bos and vocabulary.bos is not None and tokens[:1] != [vocabulary.bos]:
            tokens.insert(0, vocabulary.bos)
        return tokens

    def generate(self, ask: Ask) -> Answer:
        """Read the prompt and choose tokens one by one. Ends at end tokens, like everybody."""
        started = time.perf_counter()
        n_common = 0
        if ask.reuse:
            limit = min(len(self._kept), len(ask.tokens) - 1)
            n_common = next((i for i in range(limit) if self._kept[i] != ask.tokens[i]), limit)
        llama_cpp.llama_memory_seq_rm(self._memory, 0, n_common, -1)
        for first in range(n_common, len(ask.tokens), N_BATCH):
            self._decode(ask.tokens[first : first + N_BATCH])
        chain = _sampler(ask)
        eog, chosen, first_at = self._model.vocabulary.eog, [self._choose(chain)], time.perf_counter()
        while len(chosen) < ask.max_tokens and chosen[-1] not in eog:
            self._decode(chosen[-1:])
            chosen.append(self._choose(chain))
        ended_at = time.perf_counter()
        if chain is not None:
            llama_cpp.llama_sampler_free(chain)
        self._kept = [*ask.tokens, *chosen[:-1]]
        return Answer(
            text=b"".join(self._model.vocabulary.piece(token) for token in chosen).decode(errors="replace"),
            n_tokens=len(chosen),
            first_token_s=first_at - started,
            decode_s=ended_at - first_at,
            total_s=ended_at - started,
            finished=chosen[-1] in eog,
            n_reused=n_common,
        )

    def _decode(self, tokens: list[int]) -> None:
        array = (llama_cpp.llama_token * len(tokens))(*tokens)  # the batch only points to it
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        if llama_cpp.llama_decode(self._context, batch) != 0:
            raise RuntimeError("llama_decode failed")

    def _choose(self, chain: ctypes.c_void_p | None) -> int:
        if chain is not None:
            token: int = llama_cpp.llama_sampler_sample(chain, self._context, -1)
            return token
        row = np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._context), (self._model.vocabulary.n_tokens,))
        return int(row.argmax())


def _sampler(ask: Ask) -> ctypes.c_void_p | None:
    if not ask.sampled:
        return None
    chain: ctypes.c_void_p = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for sampler in (
        llama_cpp.llama_sampler_init_top_k(40),
        llama_cpp.llama_sampler_init_top_p(0.95, 1),
        llama_cpp.llama_sampler_init_min_p(0.05, 1),
        llama_cpp.llama_sampler_init_temp(0.8),
        llama_cpp.llama_sampler_init_dist(ask.seed),
    ):
        llama_cpp.llama_sampler_chain_add(chain, sampler)
    return chain
