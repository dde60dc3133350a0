"""Who may call: the API key, the host names of this server, the web pages that were allowed. docs/security.md."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from atelico.errors import AtelicoError
from atelico.server.errors import ForbiddenOriginError, MissingKeyError, error_response
from atelico.server.options import ServerOptions

# Answered without a key, so that a watchdog can ask whether the server lives.
_OPEN_PATHS = frozenset({"/health"})


def is_loopback(host: str) -> bool:
    """Whether `host`, a name or an address, means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Gate:
    """ASGI middleware that refuses before anything is read."""

    def __init__(self, app: ASGIApp, options: ServerOptions) -> None:
        self._app = app
        self._options = options
        self._key = options.api_key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            refusal = self._refusal(scope["path"], Headers(scope=scope))
            if refusal is not None:
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: Headers) -> AtelicoError | None:
        host = headers.get("host", "")
        if not self._knows_host(host):
            # A web page can point a name of its own at 127.0.0.1 and would then count as this server's own page.
            return ForbiddenOriginError(
                f"The host name {host[:100]!r} is not one of this server's.",
                hint="Use localhost, or start the server with --allowed-host NAME.",
            )
        origin = headers.get("origin")
        if origin is not None and not self._knows_origin(origin, host):
            return ForbiddenOriginError(
                f"Pages of {origin[:100]!r} may not call this server.",
                hint="Start the server with --cors-origin ORIGIN to allow them.",
            )
        if self._key and path not in _OPEN_PATHS and not self._has_key(headers.get("authorization", "")):
            return MissingKeyError("The API key is missing or wrong.", hint="Send it as 'Authorization: Bearer KEY'.")
        return None

    def _knows_host(self, host: str) -> bool:
        if not is_loopback(self._options.host) or not host:
            return True
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (is_loopback(name) or name in self._options.allowed_hosts)

    def _knows_origin(self, origin: str, host: str) -> bool:
        allowed = self._options.cors_origins
        return "*" in allowed or origin in allowed or origin in (f"http://{host}", f"https://{host}")

    def _has_key(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(key.strip().encode(), self._key)
