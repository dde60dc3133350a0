"""GET /health and /metrics."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

import atelico
from atelico.server.endpoint import json_response
from atelico.server.state import ServerState
from atelico.server.wire import Health


async def health(state: ServerState, request: Request, send: Send) -> Response:
    """Who answers here, which models are loaded, and with 503 that the server is stopping."""
    models: dict[str, str] = {load.model: load.state for load in state.engine.loads()}
    status = Health(status="stopping" if state.stopping else "ok", version=atelico.__version__, models=models)
    response = json_response(status)
    response.status_code = 503 if state.stopping else 200
    return response


async def metrics(state: ServerState, request: Request, send: Send) -> Response:
    """The counters in Prometheus' text format."""
    return Response(state.metrics.text(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})
