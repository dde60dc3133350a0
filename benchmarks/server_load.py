"""The HTTP server under load on loopback: throughput and time to the first token at 1, 2, 4 and 8 clients, against
llama-server's engine and HTTP server (xllamacpp) on the same weights.

Each server has a process of its own; one is loaded at a time, in turns. Every client sends one streaming request after
the other; a prompt is read anew for each. Tokens are those of the responses' usage.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks import models
from benchmarks.report import Row, Target, console, median, number, ratio, show_targets, table
from benchmarks.settings import Settings, worker_environment
from benchmarks.workloads import load_workloads

CLIENTS = (1, 2, 4, 8)
N_LANES = 4
N_CTX = 1024
N_TOKENS = 48
N_REQUESTS = 3  # of each client
N_REPETITIONS = 3
WORKLOADS = ("grounded question", "summary", "translation with names", "story")
OURS, DRAFTING, RIVAL = "atelico", "atelico, speculating", "llama-server"
SERVERS = {OURS: "atelico", DRAFTING: "atelico", RIVAL: "llama-server"}


@dataclass(frozen=True)
class Reply:
    """One streamed answer as its client saw it."""

    first_token_s: float
    n_tokens: int


def main(repetitions: int = N_REPETITIONS) -> list[Row]:
    """Measure and print the table. Returns one row per server and number of clients."""
    settings = Settings.make(quick=False)
    model = models.model_file(models.Q4_K_M)
    asked = _requests()
    found: dict[tuple[str, int], list[tuple[float, list[Reply]]]] = {}
    with contextlib.ExitStack() as stack:
        urls = {
            kind: stack.enter_context(_serving(kind, model, settings.n_threads))
            for kind in dict.fromkeys(SERVERS.values())
        }
        for name, kind in SERVERS.items():
            asyncio.run(
                _load(urls[kind], asked, 1, speculates=name == DRAFTING)
            )  # loads the model, warms everything up
        for turn in range(repetitions):
            for n_clients in CLIENTS:
                names = list(SERVERS)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    run = asyncio.run(_load(urls[SERVERS[name]], asked, n_clients, speculates=name == DRAFTING))
                    found.setdefault((name, n_clients), []).append(run)
            console.print("[dim]server_load: one repetition[/dim]")
    rows: list[Row] = [
        {
            "server": name,
            "clients": n_clients,
            "tokens_per_second": median(sum(r.n_tokens for r in replies) / seconds for seconds, replies in runs),
            "first_token_s": median(r.first_token_s for _, replies in runs for r in replies),
            "longest_first_token_s": max(r.first_token_s for _, replies in runs for r in replies),
            "tokens": sum(r.n_tokens for _, replies in runs for r in replies),
        }
        for (name, n_clients), runs in sorted(found.items())
    ]
    _show(rows, settings.n_threads, repetitions)
    show_targets(_targets(rows))
    return rows


def _requests() -> list[dict[str, Any]]:
    workloads = load_workloads()
    return [
        {
            "messages": workloads[name].messages(prompt),
            "max_tokens": N_TOKENS,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_prompt": False,
        }
        for name in WORKLOADS
        for prompt in workloads[name].prompts[:2]
    ]


async def _load(
    url: str, asked: list[dict[str, Any]], n_clients: int, *, speculates: bool
) -> tuple[float, list[Reply]]:
    """(seconds, replies) of `n_clients` clients that each send N_REQUESTS requests."""
    extra: dict[str, Any] = {"speculative": {"proposer": "auto"}} if speculates else {}
    # A connection per request: llama-server may close one that it has just kept.
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=httpx.Limits(max_keepalive_connections=0)) as client:

        async def one(number_: int) -> list[Reply]:
            bodies = [{**asked[(number_ + i * n_clients) % len(asked)], **extra} for i in range(N_REQUESTS)]
            return [await _ask(client, {"model": "model", **body}) for body in bodies]

        started = time.perf_counter()
        replies = await asyncio.gather(*(one(i) for i in range(n_clients)))
        return time.perf_counter() - started, [reply for each in replies for reply in each]


async def _ask(client: httpx.AsyncClient, body: dict[str, Any]) -> Reply:
    started = time.perf_counter()
    first_s, n_tokens = 0.0, 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if "error" in chunk:
                raise RuntimeError(str(chunk["error"]))
            if not first_s and any((choice["delta"].get("content") or "") for choice in chunk["choices"]):
                first_s = time.perf_counter() - started
            if chunk.get("usage"):
                n_tokens = chunk["usage"]["completion_tokens"]
    return Reply(first_s or time.perf_counter() - started, n_tokens)


@contextlib.contextmanager
def _serving(kind: str, model: str, n_threads: int) -> Iterator[str]:
    """A server of this kind in a process of its own, as a URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.server_load", "--serve", kind, model, str(port), str(n_threads)]
    process = subprocess.Popen(command, env=worker_environment(short_spin=True), cwd=Path(__file__).parents[1])
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health").status_code == 200:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the server at {url} did not start")


def _serve(kind: str, model: str, port: int, n_threads: int) -> None:
    """Be the server until terminated."""
    if kind == "llama-server":
        import xllamacpp

        parameters = xllamacpp.CommonParams()
        parameters.model.path = model
        parameters.n_ctx = N_CTX * N_LANES
        parameters.n_parallel = N_LANES
        parameters.verbosity = 0
        parameters.cache_ram_mib = 0
        parameters.port = port
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = n_threads
        server = xllamacpp.Server(parameters)
        while server is not None:
            time.sleep(3600)
    from atelico import Engine, EngineConfig
    from atelico.server.options import ServerOptions
    from atelico.server.run import Server

    config = EngineConfig(
        aliases={"model": model},
        n_ctx=N_CTX,
        n_threads=n_threads,
        n_lanes=N_LANES,
        kv_tokens=N_CTX * N_LANES,
        low_priority=False,
    )
    with Engine(config) as engine:
        Server(engine, ServerOptions(port=port, grace_s=0)).run()


def _of(rows: list[Row], server: str, n_clients: int, what: str) -> float | None:
    return next((row[what] for row in rows if (row["server"], row["clients"]) == (server, n_clients)), None)


def _targets(rows: list[Row]) -> list[Target]:
    """At least llama-server's throughput, and at most its time to the first token, with 5 % for noise."""
    targets = []
    for n in CLIENTS:
        speeds = [_of(rows, name, n, "tokens_per_second") for name in (OURS, RIVAL)]
        firsts = [_of(rows, name, n, "first_token_s") for name in (OURS, RIVAL)]
        targets.append(Target(f"{n} clients: throughput over llama-server's", ratio(*speeds), 0.95))
        targets.append(Target(f"{n} clients: first token over llama-server's", ratio(*firsts), 1.05, at_least=False))
    return targets


def _show(rows: list[Row], n_threads: int, repetitions: int) -> None:
    table(
        f"HTTP on loopback, SmolLM2 Q4_K_M, {n_threads} threads, {N_LANES} lanes, {repetitions} repetitions",
        ("server", "clients", "tokens/s", "first token, ms", "longest, ms"),
        (
            (
                row["server"],
                str(row["clients"]),
                number(row["tokens_per_second"], 1),
                number(row["first_token_s"] * 1000, 0),
                number(row["longest_first_token_s"] * 1000, 0),
            )
            for row in rows
        ),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=N_REPETITIONS)
    parser.add_argument("--serve", nargs=4, metavar=("KIND", "MODEL", "PORT", "THREADS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _serve(options.serve[0], options.serve[1], int(options.serve[2]), int(options.serve[3]))
    else:
        main(options.repetitions)
