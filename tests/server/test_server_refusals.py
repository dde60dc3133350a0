"""Every refusal has OpenAI's body, a status that says whose fault it is, and the id of its request."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from atelico.server.options import ServerOptions
from support.chat import SMOLLM2, Chat
from support.server import Running, chat, running_server


def error_of(response: httpx.Response, status: int) -> dict[str, str | None]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    error: dict[str, str | None] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_an_unknown_path_is_404(server: Running) -> None:
    with server.http() as http:
        assert error_of(http.get("/v2/nothing"), 404)["code"] == "unknown_url"


def test_a_wrong_method_is_405_and_says_the_right_one(server: Running) -> None:
    with server.http() as http:
        response = http.get("/v1/chat/completions")
    assert error_of(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model": "\xff"}', b"[" * 100_000])
def test_a_body_that_is_no_request_is_400(server: Running, body: bytes) -> None:
    assert error_of(server.post(content=body), 400)["type"] == "invalid_request_error"


def test_the_field_at_fault_is_named(server: Running) -> None:
    request = {**chat(), "messages": [{"role": "nobody", "content": "x"}]}
    assert error_of(server.post(json=request), 400)["param"] == "messages[0].role"


def test_a_chat_model_gives_no_embeddings(server: Running) -> None:
    error = error_of(server.post("/v1/embeddings", json={"model": SMOLLM2, "input": "x"}), 400)
    assert error["code"] == "unsupported_model"
    error = error_of(server.post("/v1/embeddings", json={"model": "none", "input": "x"}), 404)
    assert error["code"] == "model_not_found"


def test_the_caller_s_request_id_comes_back(server: Running) -> None:
    with server.http() as http:
        assert http.get("/health", headers={"x-request-id": "quest-7"}).headers["x-request-id"] == "quest-7"
        assert http.get("/health", headers={"x-request-id": "two words"}).headers["x-request-id"] != "two words"


def test_bytes_that_are_not_http_get_an_error_body(server: Running) -> None:
    import socket

    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(b"\x16\x03\x01 not http\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 400") and b'{"error":{' in answer


def test_a_web_page_may_not_call(server: Running) -> None:
    with server.http() as http:
        foreign = http.post("/v1/chat/completions", json=chat(), headers={"origin": "http://evil.example"})
        assert error_of(foreign, 403)["code"] == "forbidden_origin"
        assert "access-control-allow-origin" not in foreign.headers
        assert http.get("/health", headers={"origin": server.url}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:11434", "127.0.0.1.evil.example", "[::1", "a:b:c"])
def test_a_foreign_host_name_is_refused(server: Running, host: str) -> None:
    with server.http() as http:
        assert error_of(http.get("/v1/models", headers={"host": host}), 403)["code"] == "forbidden_origin"


@pytest.mark.parametrize("host", ["localhost", "localhost:11434", "127.0.0.1", "[::1]:11434"])
def test_this_machine_s_names_are_known(server: Running, host: str) -> None:
    with server.http() as http:
        assert http.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.fixture(scope="module")
def guarded(smol: Chat) -> Iterator[Running]:
    """A server with a key and one allowed web origin."""
    options = ServerOptions(
        port=0, api_key="s3cret", cors_origins=("http://game.example",), allowed_hosts=("ai.game.example",), grace_s=1
    )
    with running_server(smol.engine, options) as running:
        yield running


@pytest.mark.parametrize("sent", [None, "Bearer wrong", "s3cret", "Basic s3cret", "Bearer s3cret\u00e9"])
@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/openapi.json", "/nothing"])
def test_without_the_key_nothing_but_health_answers(guarded: Running, sent: str | None, path: str) -> None:
    headers = {} if sent is None else {"authorization": sent.encode()}
    with guarded.http() as http:
        assert error_of(http.get(path, headers=headers), 401)["code"] == "invalid_api_key"
        assert http.get("/health", headers=headers).status_code == 200


def test_with_the_key_requests_are_answered(guarded: Running) -> None:
    with guarded.http(headers={"authorization": "Bearer s3cret"}) as http:
        assert http.post("/v1/chat/completions", json=chat()).status_code == 200
        assert http.get("/v1/models", headers={"host": "ai.game.example"}).status_code == 200


def test_an_allowed_page_may_ask_and_read(guarded: Running) -> None:
    with guarded.http() as http:
        asked = {"origin": "http://game.example", "access-control-request-method": "POST"}
        preflight = http.options("/v1/chat/completions", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "http://game.example"
        headers = {"origin": "http://game.example", "authorization": "Bearer s3cret"}
        assert http.get("/v1/models", headers=headers).headers["access-control-allow-origin"] == "http://game.example"
        refused = http.options("/v1/chat/completions", headers={**asked, "origin": "http://evil.example"})
        assert "access-control-allow-origin" not in refused.headers
