"""The same request gives the same text and usage in process, over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from atelico import Atelico
from atelico.cli.main import app
from support.chat import Chat
from support.same_answer import REQUESTS, essence
from support.server import Running


@pytest.fixture(scope="module")
def over_http(server: Running) -> list[tuple[str, str, int, int]]:
    with server.http() as http:
        return [essence(post(http, request)) for request in REQUESTS]


def post(http: httpx.Client, request: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = http.post("/v1/chat/completions", json=request).raise_for_status().json()
    return answer


def test_in_process_and_over_http_are_the_same(smol: Chat, over_http: list[tuple[str, str, int, int]]) -> None:
    client = Atelico(engine=smol.engine)
    in_process = [essence(client.chat.completions.create(**request).model_dump()) for request in REQUESTS]
    assert len(in_process) == 20
    assert in_process == over_http


def test_the_command_line_is_the_same(over_http: list[tuple[str, str, int, int]], tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("n_ctx = 1024\nn_threads = 1\n")
    runner = CliRunner()
    for request, expected in zip(REQUESTS, over_http, strict=True):
        done = runner.invoke(app, ["--config", str(config), "chat", "--json", "-"], input=json.dumps(request))
        assert done.exit_code == 0, done.output
        assert essence(json.loads(done.stdout)) == expected
