"""A real server on a free loopback port, in a thread of the test process. No tests, no fixtures."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from atelico import Engine
from atelico.server.options import ServerOptions
from atelico.server.run import Server
from atelico.server.state import ServerState
from support.chat import SMOLLM2

# The model is sure of every token of its answer: a pass of another shape, which rounds differently, changes none.
LINE = "Repeat: the green lantern hangs over the north pier."


@dataclass(frozen=True)
class Running:
    """A server that answers at `url`."""

    url: str
    engine: Engine
    state: ServerState
    stop: Callable[[], None]

    def http(self, **options: Any) -> httpx.Client:
        """A plain HTTP client of it."""
        return httpx.Client(base_url=self.url, timeout=60, **options)

    def post(self, path: str = "/v1/chat/completions", **options: Any) -> httpx.Response:
        """One POST on a connection of its own."""
        with self.http() as client:
            return client.post(path, **options)

    def busy_lanes(self) -> int:
        """Lanes that generate or read a prompt right now."""
        return sum(load.loop.n_running for load in self.engine.loads())

    def open_requests(self) -> int:
        """Requests that are not finished."""
        return sum(load.n_waiting + load.loop.n_jobs for load in self.engine.loads())


@contextlib.contextmanager
def running_server(engine: Engine, options: ServerOptions) -> Iterator[Running]:
    """A server over `engine` that is stopped at the end of the block."""
    server = Server(engine, options)
    started = threading.Event()
    thread = threading.Thread(target=server.run, args=(started.set,), name="test-server")
    thread.start()
    try:
        assert started.wait(30)
        yield Running(server.url, engine, server.state, server.stop)
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


def chat(text: str = LINE, **fields: Any) -> dict[str, Any]:
    """A chat request to SmolLM2: greedy and short unless `fields` say otherwise."""
    messages = [{"role": "user", "content": text}]
    return {"model": SMOLLM2, "messages": messages, "temperature": 0, "max_tokens": 8, **fields}


def eventually(condition: Callable[[], bool], timeout_s: float = 30.0) -> bool:
    """Whether `condition` comes true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
