"""An OpenAI-compatible endpoint that answers as a test scripts it. No tests, no fixtures."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Step:
    """One answer of the scripted endpoint. `events`: a stream; `hang_s`: silence before anything."""

    status: int = 200
    body: bytes = b""
    events: list[bytes] = field(default_factory=list)
    hang_s: float = 0.0
    cut: bool = False


@dataclass
class Scripted:
    """An endpoint that plays `steps`, the last one again and again, and remembers what it was sent."""

    url: str
    steps: list[Step]
    received: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextlib.contextmanager
def scripted_endpoint() -> Iterator[Scripted]:
    """One on a free port of loopback."""
    script = Scripted("", [])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            script.received.append(json.loads(body))
            script.headers.append(dict(self.headers))
            step = script.steps.pop(0) if len(script.steps) > 1 else script.steps[0]
            time.sleep(step.hang_s)
            self.send_response(step.status)
            self.send_header("content-type", "text/event-stream" if step.events else "application/json")
            self.send_header("connection", "close")
            if not step.events and not step.cut:
                self.send_header("content-length", str(len(step.body)))
            elif step.cut:
                self.send_header("content-length", "1000000")
            self.end_headers()
            self.wfile.write(step.body)
            for event in step.events:
                self.wfile.write(b"data: " + event + b"\n\n")
                self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        script.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield script
        server.shutdown()
