"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from atelico.models.catalog import ModelRef
from atelico.server.endpoint import json_response
from atelico.server.state import ServerState
from atelico.server.wire import ModelCard, ModelList


async def list_models(state: ServerState, request: Request, send: Send) -> Response:
    """Every model that a request can name."""
    return json_response(ModelList(data=await state.off_loop(lambda: _cards(state))))


async def one_model(state: ServerState, request: Request, send: Send) -> Response:
    """The model that a name means; its id is the name as it was asked for."""
    name = request.path_params["name"]

    def find() -> ModelCard:
        known = {card.id: card for card in _cards(state)}
        return known[name] if name in known else _card(state.engine.resolve(name), name)

    return json_response(await state.off_loop(find))


def _cards(state: ServerState) -> list[ModelCard]:
    remotes = [ModelCard(id=f"remote::{alias}", created=0, owned_by="remote") for alias in state.engine.config.remotes]
    return [*(_card(ref, ref.name) for ref in state.engine.models()), *remotes]


def _card(ref: ModelRef, name: str) -> ModelCard:
    try:
        created = int(ref.path.stat().st_mtime)
    except OSError:  # a packaged model that has not been put together yet
        created = 0
    owner = name.partition("/")[0] if "/" in name and ref.source == "folder" else "atelico"
    return ModelCard(id=name, created=created, owned_by=owner)
