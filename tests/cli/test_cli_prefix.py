"""`atelico prefix`: a saved prefix fits its model, and whoever asks for nonsense is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atelico.cli.main import app
from support.tiny_models import write_tiny

TEXT = "the old miller lost her key under the stone near the mill " * 3


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny("llama", tmp_path_factory.mktemp("tiny") / "llama.gguf"))


def test_a_saved_prefix_is_checked_against_its_model(model: str, tmp_path: Path) -> None:
    file = tmp_path / "world.prefix"
    saved = CliRunner().invoke(app, ["prefix", "save", "--model", model, "--system", TEXT, str(file)])
    assert saved.exit_code == 0, saved.output
    assert "tokens" in saved.stdout
    checked = CliRunner().invoke(app, ["prefix", "check", "--model", model, str(file)])
    assert checked.exit_code == 0 and "fits" in checked.stdout
    file.write_bytes(file.read_bytes()[:-9])
    damaged = CliRunner().invoke(app, ["prefix", "check", "--model", model, str(file)])
    assert damaged.exit_code == 1 and "truncated" in damaged.stderr


def test_messages_come_from_a_file(model: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{"role": "user", "content": TEXT}]))
    arguments = ["prefix", "save", "--model", model, "--messages", str(tmp_path / "m.json"), str(tmp_path / "out")]
    assert CliRunner().invoke(app, arguments).exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["--system", "a", "--messages", "b"], ["--messages", "missing.json"]])
def test_wrong_usage_is_exit_code_2(model: str, tmp_path: Path, arguments: list[str]) -> None:
    run = CliRunner().invoke(app, ["prefix", "save", "--model", model, *arguments, str(tmp_path / "out")])
    assert run.exit_code == 2
    assert not (tmp_path / "out").exists()
