"""`atelico serve` as a process: starting, refusing to start, and stopping without cutting an answer off."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from atelico.errors import ShuttingDownError
from atelico.server.errors import StartError
from atelico.server.listen import listen, refuse_unsafe
from atelico.server.options import ServerOptions
from support.chat import SMOLLM2, Chat
from support.server import chat, eventually, running_server

posix = pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")


@dataclass
class Process:
    """A running `atelico serve` and where it serves."""

    popen: subprocess.Popen[str]
    url: str

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """(exit code, the rest of stderr) after a signal."""
        self.popen.send_signal(number)
        _, errors = self.popen.communicate(timeout=30)
        return self.popen.returncode, errors


@contextlib.contextmanager
def serving(tmp_path: Path, *options: str) -> Iterator[Process]:
    """`atelico serve` on a free port with a small context."""
    config = tmp_path / "config.toml"
    config.write_text("n_ctx = 1024\nn_threads = 1\n")
    command = [sys.executable, "-m", "atelico.cli.main", "--config", str(config), "serve", "--port", "0", *options]
    popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "GOMP_SPINCOUNT": "500"})
    try:
        assert popen.stderr is not None
        line = popen.stderr.readline()
        assert "atelico serves http://" in line, line + popen.stderr.read()
        yield Process(popen, line.split()[2].removesuffix("/v1"))
    finally:
        popen.kill()
        popen.wait()


@posix
def test_a_stop_lets_a_running_answer_finish(smol: Chat, tmp_path: Path) -> None:
    with serving(tmp_path, "--model", SMOLLM2) as process:
        assert eventually(lambda: httpx.get(f"{process.url}/health").json()["models"] == {SMOLLM2: "ready"})
        body = chat("Tell a story.", max_tokens=60, stream=True)
        with httpx.stream("POST", f"{process.url}/v1/chat/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            process.popen.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{process.url}/health")
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        last = json.loads(rest[-2].removeprefix("data: "))
        assert last["choices"][0]["finish_reason"] == "length"
        assert process.popen.wait(20) == 0


@posix
def test_an_answer_that_runs_past_the_grace_is_cut_with_a_proper_last_chunk(smol: Chat, tmp_path: Path) -> None:
    with serving(tmp_path, "--grace", "0.3") as process:
        body = chat("Tell a very long story.", max_tokens=900, stream=True)
        with httpx.stream("POST", f"{process.url}/v1/chat/completions", json=body, timeout=60) as response:
            lines = response.iter_lines()
            next(lines)
            started = time.monotonic()
            process.popen.send_signal(signal.SIGINT)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        last = json.loads(rest[-2].removeprefix("data: "))
        assert last["choices"][0]["finish_reason"] == "cancelled"
        assert last["atelico"]["device"] == "cpu"
        assert process.popen.wait(20) == 0
        assert time.monotonic() - started < 10


@posix
def test_an_idle_server_stops_at_once_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as process:
        code, errors = process.stop(signal.SIGINT)
    assert (code, errors.strip()) == (0, "atelico: stopped")


def test_a_stopping_server_takes_no_request(smol: Chat) -> None:
    with running_server(smol.engine, ServerOptions(port=0, grace_s=0)) as server:
        server.state.stopping = True
        response = server.post(json=chat())
        assert response.status_code == 503
        assert response.json()["error"]["code"] == ShuttingDownError.code
        assert response.headers["retry-after"] == "1"
        assert httpx.get(f"{server.url}/health").status_code == 503


def test_a_time_limit_returns_what_there_is(smol: Chat) -> None:
    smol.ask("Hello.")  # loading does not count here
    with running_server(smol.engine, ServerOptions(port=0, grace_s=0, request_timeout_s=2.0)) as server:
        answer = server.post(json=chat("Tell a very long story.", max_tokens=900)).json()
        assert answer["choices"][0]["finish_reason"] == "cancelled"
        assert 0 < answer["usage"]["completion_tokens"] < 900


def test_a_time_limit_before_the_first_token_is_an_error_that_is_not_retried(smol: Chat) -> None:
    with running_server(smol.engine, ServerOptions(port=0, grace_s=0, request_timeout_s=0.05)) as server:
        response = server.post(json=chat("word " * 900, cache_prompt=False))
        assert response.status_code == 504
        assert response.headers["x-should-retry"] == "false"


def test_a_full_queue_is_429_and_may_be_retried(smollm2_file: Path) -> None:
    from atelico import Engine, EngineConfig

    config = EngineConfig(aliases={"small": str(smollm2_file)}, n_ctx=256, n_threads=1, max_queue=1)
    with Engine(config) as engine, running_server(engine, ServerOptions(port=0, grace_s=0)) as server:
        running = engine.submit({**chat("Tell a story.", max_tokens=200), "model": "small"})
        response = server.post(json={**chat(), "model": "small"})
        running.cancel()
        assert response.status_code == 429
        assert response.json()["error"]["type"] == "rate_limit_error"
        assert "x-should-retry" not in response.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "my-machine"])
def test_other_machines_need_a_key_or_a_flag_that_says_so(host: str) -> None:
    with pytest.raises(StartError, match="every machine of the network"):
        refuse_unsafe(ServerOptions(host=host))
    refuse_unsafe(ServerOptions(host=host, api_key="k"))
    refuse_unsafe(ServerOptions(host=host, public_without_key=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
def test_this_machine_needs_no_key(host: str) -> None:
    refuse_unsafe(ServerOptions(host=host))


def test_a_port_that_we_have_says_so(smol: Chat) -> None:
    with running_server(smol.engine, ServerOptions(port=0, grace_s=0)) as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(StartError, match=rf"Port {port} .* another atelico server .* --port {port + 1}"):
            listen(ServerOptions(port=port))


class _Ollama(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"version":"0.9.1"}' if self.path == "/api/version" else b"Ollama is running"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_ollama_has_says_so(bound_to: str) -> None:
    with http.server.HTTPServer((bound_to, 0), _Ollama) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with pytest.raises(StartError, match=r"taken by Ollama 0\.9\.1"):
            listen(ServerOptions(port=other.server_port))
        other.shutdown()


def test_a_port_of_a_silent_program_is_taken_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(StartError, match="another program"):
        listen(ServerOptions(port=other.getsockname()[1]))


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(StartError, match="not an address of this machine"):
        listen(ServerOptions(host="192.0.2.1", port=0))
    with pytest.raises(StartError, match="is not known"):
        listen(ServerOptions(host="no.such.host.invalid", port=0))


@posix
def test_a_reserved_port_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse, raising=False)
    with pytest.raises(StartError, match="it is reserved"):
        listen(ServerOptions(port=81))


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "atelico.cli.main", "serve", "--host", "0.0.0.0", "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "ATELICO_API_KEY"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1
    assert done.stderr.startswith("atelico: On 0.0.0.0 every machine") and len(done.stderr.splitlines()) == 1
