"""Our engine as a contender, called in process as a game written in Python would."""

from __future__ import annotations

import time
from typing import Any

from atelico import Engine as AtelicoEngine
from atelico import EngineConfig
from atelico.job import Job
from atelico.protocol.read import decode_request
from atelico.protocol.request import ChatRequest
from atelico.protocol.response import ChatCompletion
from benchmarks.wire import T_GREEDY, T_SAMPLED, Answer, Ask, Load


class Engine:
    """Adapter. `load` may be called again for another model or other options."""

    def __init__(self) -> None:
        self._engine: AtelicoEngine | None = None
        self._model = ""

    def load(self, load: Load) -> None:
        """Start an engine and load its model."""
        self.unload()
        fields: dict[str, Any] = {"n_ctx": load.n_ctx, "n_threads": load.n_threads, **load.extra}
        if load.n_lanes > 1:
            fields |= {"n_lanes": load.n_lanes, "kv_tokens": load.n_lanes * load.n_ctx}
        self._engine, self._model = AtelicoEngine(EngineConfig(**fields)), load.model
        self._engine.wait_for_model(load.model)

    def unload(self) -> None:
        """Close the engine."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    def generate(self, ask: Ask) -> Answer:
        """Answer one request."""
        return self._answer(self._submit(ask), ask)

    def generate_many(self, asks: list[Ask]) -> list[Answer]:
        """Answer requests that are submitted together."""
        jobs = [self._submit(ask) for ask in asks]
        return [self._answer(job, ask) for job, ask in zip(jobs, asks, strict=True)]

    def save_prefix(self, messages: list[dict[str, Any]], path: str) -> int:
        """Write what the model knows after `messages` to a file."""
        return self._running().save_prefix(self._model, messages, path)

    def load_prefix(self, path: str) -> int:
        """Take such a file in."""
        return self._running().load_prefix(self._model, path)

    def _running(self) -> AtelicoEngine:
        assert self._engine is not None
        return self._engine

    def _submit(self, ask: Ask) -> Job:
        return self._running().submit(self._request(ask), prompt=ask.text)

    def _request(self, ask: Ask) -> ChatRequest:
        request: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": "the prompt goes beside the request"}],
            "max_tokens": ask.max_tokens,
            "seed": ask.seed,
            "cache_prompt": ask.reuse,
            **(T_SAMPLED if ask.sampled else T_GREEDY),
            **ask.extra,
        }
        if ask.speculates:
            request.setdefault("speculative", {"proposer": "auto", "k": 16})
        if ask.schema is not None:
            schema = {"name": "answer", "schema": ask.schema}
            request["response_format"] = {"type": "json_schema", "json_schema": schema}
        return decode_request(request)

    def _answer(self, job: Job, ask: Ask) -> Answer:
        completion = job.result()
        total_s = time.perf_counter() - job.submitted_at
        if completion.usage.prompt_tokens != len(ask.tokens):
            raise RuntimeError(f"read {completion.usage.prompt_tokens} prompt tokens, not {len(ask.tokens)}")
        return _answer(completion, total_s, structured=ask.schema is not None)


def _answer(completion: ChatCompletion, total_s: float, *, structured: bool) -> Answer:
    choice, info = completion.choices[0], completion.atelico
    assert info is not None
    logprobs = choice.logprobs.content if choice.logprobs is not None else []
    ended = choice.finish_reason == "stop"
    return Answer(
        text=choice.message.content or "",
        # An end token is sampled and not returned, except where the grammar knows that nothing can follow.
        n_tokens=completion.usage.completion_tokens + (ended and not structured),
        first_token_s=info.timings.first_token_ms / 1000,
        decode_s=info.timings.decode_ms / 1000,
        total_s=total_s,
        finished=ended,
        n_proposed=info.speculation.proposed,
        n_accepted=info.speculation.accepted,
        n_reused=info.cached_tokens,
        pieces=[entry.token for entry in logprobs],
        gaps=[entry.top_logprobs[0].logprob - entry.top_logprobs[1].logprob for entry in logprobs],
    )
