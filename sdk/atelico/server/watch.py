"""Around every request: its id, its counters, its log line."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from atelico.server.errors import as_atelico_error, error_response
from atelico.server.metrics import Metrics

logger = logging.getLogger(__name__)

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Watch:
    """ASGI middleware; the outermost, so that refusals are counted too."""

    def __init__(self, app: ASGIApp, metrics: Metrics, endpoints: Sequence[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._endpoints = [(path.partition("{")[0], path) for path in endpoints]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        started = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        with self._metrics.in_progress.track_inprogress():
            try:
                await self._app(scope, receive, send_marked)
            except Exception as error:
                if status:
                    raise
                await error_response(as_atelico_error(error))(scope, receive, send_marked)
            finally:
                took = time.perf_counter() - started
                endpoint = self._endpoint(scope["path"])
                self._metrics.requests.labels(endpoint, str(status or "none")).inc()
                self._metrics.request_s.labels(endpoint).observe(took)
                logger.info(
                    "%s %s %s: %s in %.0f ms", request_id, scope["method"], scope["path"], status or "gone", took * 1000
                )

    def _endpoint(self, path: str) -> str:
        """The route of `path`, one label for every path that leads nowhere."""
        for prefix, route in self._endpoints:
            if path == route or (prefix != route and path.startswith(prefix)):
                return route
        return "other"


def _request_id(scope: Scope) -> str:
    """The caller's own id where it sent a sane one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(given := value.decode("latin-1")):
            return str(given)
    return uuid.uuid4().hex
