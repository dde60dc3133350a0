"""llama-cpp-python's own `Llama`, with its prompt lookup and its JSON grammar."""

from __future__ import annotations

import json
import time
from typing import Any

from llama_cpp import Llama, LlamaGrammar
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

from benchmarks.wire import T_GREEDY, T_SAMPLED, Answer, Ask, Load


class Engine:
    """Adapter."""

    def load(self, load: Load) -> None:
        """Load a model. The draft "pld" is LlamaPromptLookupDecoding with 2 tokens, its documented setting for CPUs."""
        options: dict[str, Any] = {}
        if load.n_threads:
            options = {"n_threads": load.n_threads, "n_threads_batch": load.n_threads}
        if load.draft == "pld":
            options["draft_model"] = LlamaPromptLookupDecoding(num_pred_tokens=2)
            options["logits_all"] = True  # speculation needs it
        self._llama = Llama(load.model, n_ctx=load.n_ctx, verbose=False, **options)

    def generate(self, ask: Ask) -> Answer:
        """Answer one request."""
        moments: list[float] = []

        def note(_tokens: Any, _logits: Any) -> bool:
            moments.append(time.perf_counter())
            return False

        started = time.perf_counter()
        if not ask.reuse:
            self._llama.reset()
        grammar = LlamaGrammar.from_json_schema(json.dumps(ask.schema), verbose=False) if ask.schema else None
        answer: Any = self._llama.create_completion(
            ask.tokens,
            max_tokens=ask.max_tokens,
            seed=ask.seed,
            grammar=grammar,
            stopping_criteria=note,
            **(T_SAMPLED if ask.sampled else T_GREEDY),
        )
        total_s = time.perf_counter() - started
        return Answer(
            text=answer["choices"][0]["text"],
            n_tokens=len(moments),
            first_token_s=moments[0] - started,
            decode_s=moments[-1] - moments[0],
            total_s=total_s,
            finished=answer["choices"][0]["finish_reason"] == "stop",
        )
