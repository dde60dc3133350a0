"""llama-server's engine, as the xllamacpp package has it, with its n-gram speculation and its JSON schemas."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xllamacpp

from benchmarks.wire import T_GREEDY, T_SAMPLED, Answer, Ask, Load


class Engine:
    """Adapter."""

    def load(self, load: Load) -> None:
        """Load a model. The draft is one of llama-server's own: "ngram_mod" (its --spec-default), "ngram_simple" ..."""
        parameters = xllamacpp.CommonParams()
        parameters.model.path = load.model
        parameters.n_ctx = load.n_ctx * load.n_lanes
        parameters.n_parallel = load.n_lanes
        parameters.verbosity = 0
        parameters.cache_ram_mib = 0
        if load.n_threads:
            parameters.cpuparams.n_threads = load.n_threads
            parameters.cpuparams_batch.n_threads = load.n_threads
        if load.draft is not None:
            kind = f"COMMON_SPECULATIVE_TYPE_{load.draft.upper()}"
            parameters.speculative.types = [getattr(xllamacpp.common_speculative_type, kind)]
        self._server = xllamacpp.Server(parameters)

    def generate(self, ask: Ask) -> Answer:
        """Answer one request."""
        request: dict[str, Any] = {
            "prompt": ask.tokens,
            "n_predict": ask.max_tokens,
            "seed": ask.seed,
            "cache_prompt": ask.reuse,
            **(T_SAMPLED if ask.sampled else T_GREEDY),
        }
        if ask.schema is not None:
            request["json_schema"] = ask.schema
        started = time.perf_counter()
        answer = self._server.handle_completions(request)
        total_s = time.perf_counter() - started
        if "choices" not in answer:
            raise RuntimeError(str(answer)[:300])
        timings = answer["timings"]
        decode_s = timings["predicted_ms"] / 1000
        return Answer(
            text=answer["choices"][0]["text"],
            n_tokens=timings["predicted_n"],
            first_token_s=total_s - decode_s,
            decode_s=decode_s,
            total_s=total_s,
            finished=answer["choices"][0]["finish_reason"] == "stop",
            n_proposed=timings.get("draft_n", 0),
            n_accepted=timings.get("draft_n_accepted", 0),
            n_reused=timings["cache_n"],
        )

    def generate_many(self, asks: list[Ask]) -> list[Answer]:
        """Answer requests that come at the same time."""
        with ThreadPoolExecutor(len(asks)) as pool:
            return list(pool.map(self.generate, asks))
