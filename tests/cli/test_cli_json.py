"""`atelico chat --json`: nothing but JSON on stdout, whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_support import MODEL, Atelico, Start
from openai.types.chat import ChatCompletion, ChatCompletionChunk

REQUEST: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Zähle: eins, zwei, drei. 🏴"}],
    "temperature": 0,
    "max_tokens": 6,
    "speculative": {"proposer": "prompt_lookup", "k": 3},
}


def test_request_comes_as_a_literal_a_file_or_stdin(atelico: Atelico, tmp_path: Path) -> None:
    body = json.dumps(REQUEST, ensure_ascii=False)
    file = tmp_path / "request.json"
    file.write_text(body, encoding="utf-8")
    runs = [
        atelico("chat", "--json", body),
        atelico("chat", "--json", str(file)),
        atelico("chat", "--json", "-", stdin=body.encode()),
    ]
    assert [run.exit_code for run in runs] == [0, 0, 0]
    answers = [json.loads(run.stdout) for run in runs]
    assert all(run.stdout.count("\n") == 1 for run in runs)
    assert len({answer["choices"][0]["message"]["content"] for answer in answers}) == 1


def test_response_is_openais_with_our_object(atelico: Atelico) -> None:
    answer = json.loads(atelico("chat", "--json", json.dumps(REQUEST)).stdout)
    assert ChatCompletion.model_validate(answer).choices[0].message.content
    assert answer["usage"]["completion_tokens"] == 6
    assert answer["atelico"]["speculation"]["proposer"] == "prompt_lookup"


def test_streamed_request_prints_one_chunk_per_line(atelico: Atelico) -> None:
    whole = json.loads(atelico("chat", "--json", json.dumps(REQUEST)).stdout)
    run = atelico("chat", "--json", json.dumps({**REQUEST, "stream": True}))
    chunks = [json.loads(line) for line in run.stdout.splitlines()]
    parsed = [ChatCompletionChunk.model_validate(chunk) for chunk in chunks]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in parsed)
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["atelico"]["speculation"]["active"]


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"{", "invalid_json", None),
        (b"\xff\xfe", "invalid_json", None),
        (b"", "invalid_json", None),
        (b"[]", "invalid_value", None),
        (b"{}", "missing_field", "model"),
        (json.dumps({**REQUEST, "model": "nobody"}).encode(), "model_not_found", "model"),
        (json.dumps({**REQUEST, "temperature": 9}).encode(), "invalid_value", "temperature"),
        (json.dumps({**REQUEST, "messages": [{"role": "ghost"}]}).encode(), "invalid_value", "messages[0].role"),
    ],
    ids=["cut", "not UTF-8", "empty", "array", "no fields", "model", "temperature", "role"],
)
def test_failure_is_an_openai_error_on_stdout(atelico: Atelico, body: bytes, code: str, param: str | None) -> None:
    run = atelico("chat", "--json", "-", stdin=body)
    assert run.exit_code == 1
    error = json.loads(run.stdout)["error"]
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert error["type"] == "invalid_request_error"


def test_wrong_configuration_is_an_openai_error_too(atelico: Atelico, tmp_path: Path) -> None:
    run = atelico("--config", str(tmp_path / "missing.toml"), "chat", "--json", json.dumps(REQUEST))
    assert run.exit_code == 1
    assert json.loads(run.stdout)["error"]["code"] == "invalid_config"


def test_round_trip_through_a_pipe_is_utf8_in_any_locale(start: Start, environment: dict[str, str]) -> None:
    environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    process = start("chat", "--json", "-")
    out, err = process.communicate(json.dumps(REQUEST, ensure_ascii=False).encode(), timeout=120)
    assert process.returncode == 0, err.decode()
    assert json.loads(out.decode("utf-8"))["choices"][0]["message"]["content"]
