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
from support.chat import SMOLLM2, Chat
from support.server import Running

QUESTIONS = ("Name a colour.", "What is rain?", "Greet the king.", "Count to five.", "Who are you?")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}}, "required": ["name"]}
SHEET = {"type": "json_schema", "json_schema": {"name": "sheet", "schema": SCHEMA}}
VARIANTS: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0.9, "seed": 11},
    {"temperature": 0, "speculative": {"proposer": "prompt_lookup"}},
    {"temperature": 0.7, "seed": 5, "response_format": SHEET},
)
# Without cache_prompt every request reads its prompt alone and anew, so that nothing depends on what ran before.
REQUESTS = [
    {
        "model": SMOLLM2,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 10,
        "cache_prompt": False,
        **variant,
    }
    for question in QUESTIONS
    for variant in VARIANTS
]


def essence(answer: dict[str, Any]) -> tuple[str, str, int, int]:
    """What must be the same."""
    choice, usage = answer["choices"][0], answer["usage"]
    return (
        choice["message"]["content"],
        choice["finish_reason"],
        usage["prompt_tokens"],
        usage["completion_tokens"],
    )


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
