"""Hostile and unlucky clients: too large, too slow, too many, nonsense. The server stays and loses no lane."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator

import httpx
import msgspec
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atelico.protocol.request import ChatRequest
from support.chat import SMOLLM2
from support.server import Running, chat, eventually

N_CONNECTIONS = 200


@pytest.fixture(autouse=True)
def answers_afterwards(server: Running) -> Iterator[None]:
    """Whatever a test did: no lane is lost, and the next request is answered."""
    yield
    assert eventually(lambda: server.open_requests() == 0)
    assert server.post(json=chat()).status_code == 200


def address(server: Running) -> tuple[str, int]:
    host, _, port = server.url.removeprefix("http://").partition(":")
    return host, int(port)


def test_a_body_of_100_mb_is_refused_and_takes_no_memory(server: Running) -> None:
    def pieces() -> Iterator[bytes]:
        yield b'{"model": "x", "messages": [{"role": "user", "content": "'
        for _ in range(100):
            yield b"x" * 1024 * 1024

    process = psutil.Process()
    before = process.memory_info().rss
    response = server.post(content=pieces())
    grown = process.memory_info().rss - before
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "request_too_large"
    assert grown < 40 * 1024 * 1024


def test_a_client_that_asks_before_sending_too_much_need_not_send_it(server: Running) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000000\r\n"
    with socket.create_connection(address(server), 5) as connection:
        connection.sendall(head + b"expect: 100-continue\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_that_trickles_in_is_given_up(server: Running) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"
    with socket.create_connection(address(server), 10) as connection:
        connection.sendall(head + b"{")
        answer = b""
        while piece := connection.recv(4096):  # until the server closes; headers and body may come apart
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408") and b"request_timeout" in answer


@pytest.mark.parametrize("sent", [b"", b"POST /v1/chat/com"])
def test_a_connection_that_asks_nothing_is_closed(server: Running, sent: bytes) -> None:
    with socket.create_connection(address(server), 10) as connection:
        connection.sendall(sent)
        assert connection.recv(4096) == b""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from([*(field.name for field in msgspec.structs.fields(ChatRequest)), "unknown"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.dictionaries(FIELDS, VALUES, max_size=4))
def test_no_field_s_value_is_a_server_error(server: Running, changes: dict[str, object]) -> None:
    body = json.dumps({**chat(max_tokens=1), **changes})  # NaN and Infinity included, which are no JSON
    response = server.post(content=body.encode(errors="surrogatepass"))
    assert response.status_code < 500, response.text
    assert response.status_code == 200 or response.json()["error"]["message"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=200))
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
def test_no_bytes_are_a_server_error(server: Running, path: str, body: bytes) -> None:
    assert server.post(path, content=body).status_code == 400


def test_200_connections_of_which_half_hang_up(server: Running) -> None:
    """Half of the clients leave without waiting, streaming or not; the others all get an answer or a refusal."""
    process = psutil.Process()
    n_threads = process.num_threads()
    before = process.memory_info().rss

    async def client(i: int) -> int:
        reader, writer = await asyncio.open_connection(*address(server))
        body = json.dumps(chat(f"Say {i}.", max_tokens=4, stream=i % 4 >= 2)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
        await writer.drain()
        if i % 2:
            await asyncio.sleep(0.01 * (i % 20))
            writer.transport.abort()
            return 0
        answer = await reader.read()
        writer.close()
        return int(answer.split(b" ")[1])

    async def all_clients() -> tuple[list[int], int]:
        clients = [asyncio.create_task(client(i)) for i in range(N_CONNECTIONS)]
        await asyncio.sleep(0.5)
        threads = process.num_threads() - n_threads
        return list(await asyncio.gather(*clients)), threads

    statuses, more_threads = asyncio.run(all_clients())
    assert statuses.count(0) == N_CONNECTIONS // 2
    assert {status for status in statuses if status} <= {200, 429}
    assert statuses.count(200) >= 16
    assert more_threads < 8  # no thread per connection
    assert process.memory_info().rss - before < 100 * 1024 * 1024
    assert eventually(lambda: server.open_requests() == 0)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wait_s", [0.0, 0.05, 0.5])
def test_a_client_that_hangs_up_frees_its_lane(server: Running, stream: bool, wait_s: float) -> None:
    body = json.dumps(chat("Tell a very long story.", max_tokens=900, stream=stream)).encode()
    with socket.create_connection(address(server), 10) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        time.sleep(wait_s)
        if wait_s == 0.5:
            assert server.busy_lanes() == 1
    assert eventually(lambda: server.open_requests() == 0, 5)


def test_hanging_up_while_the_prompt_is_read_frees_the_lane(server: Running) -> None:
    with pytest.raises(httpx.ReadTimeout), server.http() as http:
        http.post("/v1/chat/completions", json=chat("word " * 900, cache_prompt=False), timeout=0.2)
    assert eventually(lambda: server.open_requests() == 0, 5)


def test_a_client_that_does_not_read_holds_up_nobody(server: Running) -> None:
    body = json.dumps(chat("Tell a long story.", max_tokens=64, stream=True)).encode()
    with socket.create_connection(address(server), 10) as connection:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert server.post(json=chat()).status_code == 200
        assert eventually(lambda: server.open_requests() == 0)


def test_the_model_s_name_in_metrics_is_its_own(server: Running) -> None:
    """Clients must not be able to fill the memory with labels."""
    for name in ("smollm2-135m-instruct", f"in-memory::{SMOLLM2}", "SMOLLM2_135M_INSTRUCT"):
        assert server.post(json={**chat(max_tokens=1), "model": name}).status_code == 200
    with server.http() as http:
        text = http.get("/metrics").text
    models = {line.split('"')[1] for line in text.splitlines() if line.startswith("atelico_completion_tokens_total{")}
    assert models == {SMOLLM2}
