"""A hub on loopback that looks like Hugging Face's as far as a download does. No tests, no fixtures."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Hub:
    """What is on it, and what it was asked for.

    Attributes:
        files: path -> content, of the one repository org/tiny-GGUF.
        sha256: checksums that it states; the right ones where they are not here.
        cut_after: bytes after which it breaks a download off, once.
        ranges: the Range header of each download, "" without one.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    status: int = 200
    ranges: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """A hub on a free port."""
    hub = Hub()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            hub.tokens.append(self.headers.get("authorization", ""))
            path = self.path.partition("?")[0]
            if hub.status != 200:
                self._send(hub.status, b"{}")
            elif path == "/api/models/org/tiny-GGUF":
                self._send(200, self._info())
            elif (match := re.fullmatch(r"/org/tiny-GGUF/resolve/main/(.+)", path)) and match[1] in hub.files:
                self._file(hub.files[match[1]])
            else:
                self._send(404, b"{}", {"x-error-code": "RepoNotFound"})

        def _info(self) -> bytes:
            siblings = [
                {
                    "rfilename": name,
                    "size": len(data),
                    "lfs": {
                        "sha256": hub.sha256.get(name, hashlib.sha256(data).hexdigest()),
                        "size": len(data),
                        "pointerSize": 130,
                    },
                }
                for name, data in hub.files.items()
            ]
            return json.dumps({"id": "org/tiny-GGUF", "siblings": siblings}).encode()

        def _file(self, data: bytes) -> None:
            asked = self.headers.get("range", "")
            hub.ranges.append(asked)
            match = re.fullmatch(r"bytes=(\d+)-", asked)
            start = int(match[1]) if match else 0
            rest = data[start:]
            self.send_response(206 if match else 200)
            self.send_header("content-length", str(len(rest)))
            if match:
                self.send_header("content-range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.end_headers()
            if hub.cut_after is not None:
                rest, hub.cut_after = rest[: hub.cut_after], None
                self.wfile.write(rest)
                self.wfile.flush()
                hub.status = 503
                return
            self.wfile.write(rest)

        def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield hub
        server.shutdown()
