"""Running the app: uvicorn on our own socket, and a stop that lets running answers finish."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator

import uvicorn

from atelico.engine import Engine
from atelico.server.app import build_app
from atelico.server.connection import connection_class
from atelico.server.listen import listen, refuse_unsafe
from atelico.server.options import ServerOptions
from atelico.server.state import ServerState

# After the running requests were cancelled: for their last chunks.
_LAST_CHUNKS_S = 10.0


class Server:
    """A server that listens from its making on, and answers while `run` runs."""

    def __init__(self, engine: Engine, options: ServerOptions) -> None:
        """Take the port.

        Raises:
            StartError: it cannot be had, or these options would be unsafe.
        """
        refuse_unsafe(options)
        self._listener = listen(options)
        app, self.state = build_app(engine, options)
        config = uvicorn.Config(
            app,
            http=connection_class(options),
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # nobody's word on who the client is
            timeout_graceful_shutdown=int(options.grace_s + _LAST_CHUNKS_S),
        )
        self._uvicorn = _Uvicorn(config, self.state)

    @property
    def url(self) -> str:
        """Where clients reach it, without a path."""
        host, port = self._listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if self._listener.family == socket.AF_INET6 else f"http://{host}:{port}"

    def run(self, on_started: Callable[[], None] | None = None) -> None:
        """Serve until SIGINT, SIGTERM or `stop`, then let running requests finish. A second SIGINT does not wait."""
        self._uvicorn.on_started = on_started
        try:
            self._uvicorn.run(sockets=[self._listener])
        finally:
            self._listener.close()
            self.state.close()

    def stop(self) -> None:
        """Make `run` return; safe from any thread."""
        self._uvicorn.should_exit = True


class _Uvicorn(uvicorn.Server):
    """uvicorn's server with our stop."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state
        self.on_started: Callable[[], None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.on_started is not None:
            self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = asyncio.create_task(self._state.stop())
        await super().shutdown(sockets)
        stopping.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Without raising the signal again afterwards: a stop that was asked for is a success, and models are to be
        closed yet."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
