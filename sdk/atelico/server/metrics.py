"""Numbers for Prometheus. docs/metrics.md explains each; the names are stable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from atelico.engine import Engine
from atelico.protocol.response import AtelicoInfo, Usage
from atelico.runtime import kernels

_LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass
class Totals:
    """Sums over the finished requests of one model, for the monitor."""

    n_requests: int = 0
    n_output: int = 0
    n_proposed: int = 0
    n_accepted: int = 0


class Metrics:
    """The counters of one server. Only the event loop writes them."""

    def __init__(self, engine: Engine) -> None:
        self._totals: dict[str, Totals] = {}
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_EngineCollector(engine))
        self.in_progress = Gauge("atelico_requests_in_progress", "HTTP requests being answered", registry=registry)
        self.requests = Counter(
            "atelico_requests", "HTTP requests by endpoint and status code", ["endpoint", "code"], registry=registry
        )
        self.request_s = Histogram(
            "atelico_request_seconds",
            "Time from a request's arrival to the end of its response",
            ["endpoint"],
            buckets=_LATENCY_S,
            registry=registry,
        )

        def by_model(kind: type[Counter], name: str, text: str, *labels: str) -> Counter:
            return kind(name, text, ["model", *labels], registry=registry)

        def seconds(name: str, text: str, buckets: tuple[float, ...] = _LATENCY_S) -> Histogram:
            return Histogram(name, text, ["model"], buckets=buckets, registry=registry)

        self._finished = by_model(Counter, "atelico_choices_finished", "Finished choices by reason", "reason")
        self._prompt = by_model(Counter, "atelico_prompt_tokens", "Prompt tokens")
        self._cached = by_model(Counter, "atelico_cached_tokens", "Prompt tokens that were already in memory")
        self._output = by_model(Counter, "atelico_completion_tokens", "Generated tokens")
        self._proposed = by_model(Counter, "atelico_spec_proposed", "Draft tokens by who guessed them", "source")
        self._accepted = by_model(Counter, "atelico_spec_accepted", "Accepted draft tokens", "source")
        self._queue_s = seconds("atelico_queue_seconds", "Time a request waited for a lane")
        self._first_s = seconds("atelico_first_token_seconds", "Time from submission to the first token")
        self._token_s = seconds("atelico_token_seconds", "Mean time per token after the first, per request", _TOKEN_S)

    def count_answer(self, model: str, reasons: Sequence[str], usage: Usage, info: AtelicoInfo) -> None:
        """Add up a finished request of `model`."""
        for reason in reasons:
            self._finished.labels(model, reason).inc()
        self._prompt.labels(model).inc(usage.prompt_tokens)
        self._cached.labels(model).inc(info.cached_tokens)
        self._output.labels(model).inc(usage.completion_tokens)
        for source, n_proposed in info.speculation.proposed_sources.items():
            self._proposed.labels(model, source).inc(n_proposed)
        for source, n_accepted in info.speculation.sources.items():
            self._accepted.labels(model, source).inc(n_accepted)
        totals = self._totals.setdefault(model, Totals())
        totals.n_requests += 1
        totals.n_output += usage.completion_tokens
        totals.n_proposed += info.speculation.proposed
        totals.n_accepted += info.speculation.accepted
        timings = info.timings
        self._queue_s.labels(model).observe(timings.queue_ms / 1000)
        if timings.first_token_ms:
            self._first_s.labels(model).observe(timings.first_token_ms / 1000)
        if timings.tokens_per_second:
            self._token_s.labels(model).observe(1 / timings.tokens_per_second)

    def count_embedded(self, model: str, n_tokens: int) -> None:
        """Add up the tokens of texts that an embedding `model` has read."""
        self._prompt.labels(model).inc(n_tokens)

    def totals(self, model: str) -> Totals:
        """The sums of one model; zeros where it has answered nothing yet."""
        return self._totals.get(model, Totals())

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self._registry)


class _EngineCollector(Collector):
    """What the engine knows at the moment it is asked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """One sample per loaded model."""

        def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, text, labels=["model", *labels])

        if self._engine.loads():  # else nobody knows yet
            yield InfoMetricFamily("atelico_kernels", "What computes on the CPU", {"kernels": kernels.in_use()})
        queue = gauge("atelico_queue_length", "Requests that are not finished and have no lane")
        busy = gauge("atelico_lanes_busy", "Lanes that are generating")
        lanes = gauge("atelico_lanes", "Lanes there are")
        threads = gauge("atelico_threads", "Threads that decode, which follow the load of the machine")
        used = gauge("atelico_kv_tokens", "Tokens of the KV cache in use or reserved by running lanes")
        size = gauge("atelico_kv_capacity_tokens", "Tokens the KV cache can hold")
        cost = gauge(
            "atelico_governor_cost", "Time of a pass relative to one without drafts", "lanes", "rows", "logits"
        )
        acceptance = gauge("atelico_governor_acceptance", "Share of right draft tokens lately", "source")
        pause = gauge("atelico_governor_pause_requests", "Requests until a proposer is probed again", "proposer")
        for load in self._engine.loads():
            queue.add_metric([load.model], load.n_waiting)
            busy.add_metric([load.model], load.loop.n_running)
            lanes.add_metric([load.model], load.loop.n_lanes)
            threads.add_metric([load.model], load.loop.n_threads)
            used.add_metric([load.model], load.loop.n_kv_tokens)
            size.add_metric([load.model], load.loop.n_kv_capacity)
            governor = load.loop.governor
            for n_lanes, curve in governor.costs.items():
                for rows, ratio in curve.items():
                    logits = "no" if rows.blind else "yes"
                    cost.add_metric([load.model, str(n_lanes), str(rows.full + rows.blind), logits], ratio)
            for source, share in governor.acceptance.items():
                acceptance.add_metric([load.model, source], share)
            for proposer, n_requests in governor.pauses.items():
                pause.add_metric([load.model, proposer], n_requests)
        yield from (queue, busy, lanes, threads, used, size, cost, acceptance, pause)
