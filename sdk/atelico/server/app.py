"""The ASGI app: which path leads where, and what every request passes on its way."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from atelico.engine import Engine
from atelico.server.chat import chat_completions
from atelico.server.completions import completions
from atelico.server.embeddings import embeddings
from atelico.server.endpoint import Endpoint, Handler
from atelico.server.errors import on_http_exception
from atelico.server.gate import Gate
from atelico.server.health import health, metrics
from atelico.server.models import list_models, one_model
from atelico.server.openapi import openapi
from atelico.server.options import ServerOptions
from atelico.server.state import ServerState
from atelico.server.watch import Watch

ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/v1/chat/completions", chat_completions),
    ("POST", "/v1/completions", completions),
    ("POST", "/v1/embeddings", embeddings),
    ("GET", "/v1/models", list_models),
    ("GET", "/v1/models/{name:path}", one_model),
    ("GET", "/health", health),
    ("GET", "/metrics", metrics),
    ("GET", "/openapi.json", openapi),
)


def build_app(engine: Engine, options: ServerOptions) -> tuple[Starlette, ServerState]:
    """The app over `engine`, and its state, whose `stop` and `close` end it."""
    state = ServerState(engine, options)
    routes = [Route(path, Endpoint(state, handler), methods=[method]) for method, path, handler in ROUTES]
    middleware = [Middleware(Watch, metrics=state.metrics, endpoints=[path for _, path, _ in ROUTES])]
    if options.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=options.cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
                expose_headers=["x-request-id"],
            )
        )
    middleware.append(Middleware(Gate, options=options))
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: on_http_exception})
    app.router.redirect_slashes = False
    return app, state
