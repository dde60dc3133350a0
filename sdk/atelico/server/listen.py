"""The listening socket, and when there is none to be had: who has it, in words."""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import socket
import sys

from atelico.server.errors import StartError
from atelico.server.gate import is_loopback
from atelico.server.options import ServerOptions

_PROBE_S = 1.0
_BACKLOG = 256
_WSAEACCES = 10013  # Windows: the port lies in a range that the system has reserved


def refuse_unsafe(options: ServerOptions) -> None:
    """Raises StartError where the whole network could use the server without a key."""
    if not is_loopback(options.host) and not options.api_key and not options.public_without_key:
        raise StartError(
            f"On {options.host} every machine of the network could use this server.",
            hint="Set ATELICO_API_KEY, or say --public-without-key if that is meant.",
        )


def listen(options: ServerOptions) -> socket.socket:
    """A socket that listens at the options' host and port; port 0 takes a free one.

    Raises:
        StartError: the address cannot be had; the message says who answers there, where that can be told.
    """
    host, port = options.host, options.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise StartError(f"The host {host!r} is not known: {error.strerror}.", hint="Use 127.0.0.1.") from None
    if port and is_loopback(host) and _connects(host, port):
        raise _taken(host, port)  # on some systems a socket on 0.0.0.0 would only be shadowed, and bind succeed
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform == "win32":
            # There SO_REUSEADDR would let two servers share the port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _refusal(error, host, port) from None
    listener.setblocking(False)
    return listener


def _refusal(error: OSError, host: str, port: int) -> StartError:
    if error.errno == errno.EADDRINUSE:
        return _taken(host, port)
    if error.errno in (errno.EACCES, errno.EPERM) or getattr(error, "winerror", None) == _WSAEACCES:
        return StartError(
            f"The system does not let this program use port {port} of {host}: it is reserved.",
            hint="Choose another with --port, above 1023.",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartError(f"{host} is not an address of this machine.", hint="Use 127.0.0.1 or 0.0.0.0 with --host.")
    return StartError(f"Port {port} of {host} cannot be used: {error.strerror}.", hint="Choose another with --port.")


def _taken(host: str, port: int) -> StartError:
    return StartError(
        f"Port {port} of {host} is taken by {who_answers(host, port)}.",
        hint=f"Stop that program, or choose another port: --port {port + 1 if port < 65535 else 8080}.",
    )


def who_answers(host: str, port: int) -> str:
    """What listens at an address, as far as it says."""
    probed = "127.0.0.1" if host in ("0.0.0.0", "") else "::1" if host == "::" else host
    health = _get_json(probed, port, "/health")
    if health is not None and health.get("name") == "atelico":
        return f"another atelico server (version {health.get('version', 'unknown')})"
    ollama = _get_json(probed, port, "/api/version")
    if ollama is not None and isinstance(version := ollama.get("version"), str):
        return f"Ollama {version[:40]}"
    return "another program" if health is None else "another HTTP server"


def _connects(host: str, port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection((host, port), timeout=_PROBE_S).close()
        return True
    return False


def _get_json(host: str, port: int, path: str) -> dict[str, object] | None:
    """A JSON object served at `path`; {} for an HTTP answer of another kind, None where nobody speaks HTTP."""
    connection = http.client.HTTPConnection(host, port, timeout=_PROBE_S)
    try:
        connection.request("GET", path)
        answer = json.loads(connection.getresponse().read(65_536))
    except ValueError:
        return {}
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) else {}
