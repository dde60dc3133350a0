"""`atelico serve`: options to a running HTTP server. The server itself is in atelico.server."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from atelico.cli.report import errors_for_people, note
from atelico.config import load_config
from atelico.engine import Engine
from atelico.errors import ConfigError

if TYPE_CHECKING:
    from atelico.server.run import Server

_NEEDED = ("starlette", "uvicorn", "prometheus_client", "httpx")
_CLOSE_S = 15.0


def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 11434,
    model: Annotated[list[str] | None, typer.Option(help="Load this model now; may be repeated.")] = None,
    api_key: Annotated[
        str,
        typer.Option(
            envvar="ATELICO_API_KEY", show_envvar=True, help="Key that clients must send. Others see an option's value."
        ),
    ] = "",
    cors_origin: Annotated[
        list[str] | None, typer.Option(help="Web origin whose pages may call; may be repeated. '*' for all.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Further host name of this server; for a reverse proxy.")
    ] = None,
    public_without_key: Annotated[
        bool, typer.Option("--public-without-key", help="Serve other machines although there is no key.")
    ] = False,
    max_body_mb: Annotated[float, typer.Option(min=0.001, help="Largest request body, in MB.")] = 16.0,
    request_timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for an answer.")] = 600.0,
    grace: Annotated[float, typer.Option(min=0.0, help="Seconds for running requests to finish at a stop.")] = 20.0,
    monitor: Annotated[bool, typer.Option("--monitor", help="Show lanes, speed and queue in the terminal.")] = False,
) -> None:
    """Serve OpenAI's API over HTTP, on this machine only unless told otherwise."""
    with errors_for_people():
        _refuse_without_packages()
        from atelico.server.options import ServerOptions
        from atelico.server.run import Server

        options = ServerOptions(
            host=host,
            port=port,
            api_key=api_key,
            cors_origins=tuple(cors_origin or ()),
            allowed_hosts=tuple(allowed_host or ()),
            public_without_key=public_without_key,
            max_body_bytes=int(max_body_mb * 1024 * 1024),
            request_timeout_s=request_timeout,
            grace_s=grace,
        )
        engine = Engine(load_config(context.obj))
        try:
            server = Server(engine, options)
            for name in model or ():
                engine.load_model(name)
            _run(server, monitor=monitor)
        finally:
            engine.close(_CLOSE_S)


def _run(server: Server, *, monitor: bool) -> None:
    view: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if monitor and sys.stdout.isatty():
        from atelico.server.monitor import Monitor

        view = Monitor(server.state, server.url)
    elif monitor:
        note("atelico: --monitor needs a terminal; serving without it.", style="yellow")
    with view:
        # Not before it runs: from then on Ctrl-C is a stop that lets answers finish.
        server.run(lambda: note(f"atelico serves {server.url}/v1 (Ctrl-C stops it)", style="bold"))
    note("atelico: stopped")


def _refuse_without_packages() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"The server needs packages that are not installed: {', '.join(missing)}.",
            hint="Install them with: pip install 'atelico[server]'.",
        )
