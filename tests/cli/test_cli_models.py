"""`atelico models`: the list, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import llama_cpp
import pytest
from cli_support import MODEL, Atelico

from atelico.cli import models
from atelico.models.gguf import GgufInfo, read_gguf


def test_table_shows_what_the_file_says(atelico: Atelico) -> None:
    run = atelico("models")
    assert run.exit_code == 0
    line = next(line for line in run.stdout.splitlines() if line.startswith(MODEL))
    assert {"llama", "Q4_1", "8192", "yes", "package"} <= set(line.split())


def test_json_agrees_with_the_headers(atelico: Atelico) -> None:
    entries = {entry["name"]: entry for entry in json.loads(atelico("models", "--json").stdout)}
    entry = entries[MODEL]
    info = read_gguf(entry["path"])
    assert entry["architecture"] == info.architecture
    assert entry["quantization"] == info.quantization
    assert entry["size_bytes"] == Path(entry["path"]).stat().st_size
    assert entry["n_ctx_train"] == info.n_ctx_train
    assert (entry["can_chat"], entry["can_speculate"], entry["reason"]) == (True, True, None)


def test_no_weights_are_loaded(atelico: Atelico, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", refuse)
    assert atelico("models").exit_code == 0


def test_model_that_cannot_speculate_is_listed_with_the_reason(
    atelico: Atelico, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def recurrent(path: Path) -> GgufInfo:
        return replace(read_gguf(path), architecture="mamba", is_recurrent=True)

    monkeypatch.setattr(models, "read_gguf", recurrent)
    config = tmp_path / "config.toml"
    config.write_text('device = "metal"', encoding="utf-8")
    entries = json.loads(atelico("--config", str(config), "models", "--json").stdout)
    entry = next(entry for entry in entries if entry["name"] == MODEL)
    assert entry["can_speculate"] is False
    assert "Metal" in entry["reason"]
    assert "no: recurrent memory on Metal" in atelico("--config", str(config), "models").stdout


def test_broken_file_is_listed_with_its_problem(atelico: Atelico, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "broken [bold].gguf").write_bytes(b"GGUF but not really")
    environment["ATELICO_MODELS"] = str(folder)
    run = atelico("models")
    assert run.exit_code == 0
    assert "broken [bold]" in run.stdout
    assert "broken [bold]: " in run.stderr
    assert MODEL in run.stdout


def test_alias_is_listed_as_one(atelico: Atelico, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[aliases]\nnpc = "{MODEL}"\n', encoding="utf-8")
    entries = json.loads(atelico("--config", str(config), "models", "--json").stdout)
    assert next(entry for entry in entries if entry["name"] == "npc")["source"] == "alias"
