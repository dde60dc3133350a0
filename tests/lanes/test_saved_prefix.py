"""A prefix in a file: it starts a later process where this one was, and nothing else is taken in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from atelico import Engine, EngineConfig
from atelico.errors import PrefixError
from support.tiny_models import write_tiny

WORLD = [{"role": "system", "content": "the old miller lost her key under the stone near the mill " * 4}]
QUESTION = {"role": "user", "content": "near the old stone"}
CONFIG = EngineConfig(n_ctx=512, n_threads=1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny("llama", tmp_path_factory.mktemp("tiny") / "llama.gguf", noise=0.7, seed=2))


@pytest.fixture(scope="module")
def saved(model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("prefix") / "dossier мод" / "world.prefix"
    with Engine(CONFIG) as engine:
        assert engine.save_prefix(model, WORLD, path) > 50
    return path


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine(CONFIG) as engine:
        yield engine


def request(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [*WORLD, QUESTION], "temperature": 0, "max_tokens": 40, **fields}


def test_after_a_restart_only_the_question_is_read(engine: Engine, model: str, saved: Path) -> None:
    n_saved = engine.load_prefix(model, saved)
    warm = engine.chat_completion(request(model))
    cold = engine.chat_completion(request(model, cache_prompt=False))
    assert warm.atelico.cached_tokens == n_saved
    assert warm.choices[0].message.content == cold.choices[0].message.content


def test_saving_again_gives_the_same_tokens(engine: Engine, model: str, saved: Path, tmp_path: Path) -> None:
    n_saved = engine.load_prefix(model, saved)
    assert engine.save_prefix(model, WORLD, tmp_path / "again.prefix") == n_saved


def refused(engine: Engine, model: str, path: Path) -> str:
    """The reason, and the proof that the engine goes on."""
    with pytest.raises(PrefixError) as caught:
        engine.load_prefix(model, path)
    answer = engine.chat_completion(request(model, max_tokens=2))
    assert answer.usage.completion_tokens == 2
    return caught.value.message


@pytest.mark.parametrize("where", [0.1, 0.5, 0.99])
def test_a_changed_file_is_refused(engine: Engine, model: str, saved: Path, tmp_path: Path, where: float) -> None:
    data = bytearray(saved.read_bytes())
    first = data.index(b"\n") + 1
    data[first + int((len(data) - first) * where)] ^= 0x40
    (tmp_path / "changed").write_bytes(data)
    assert "has been changed" in refused(engine, model, tmp_path / "changed")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_a_truncated_file_is_refused(engine: Engine, model: str, saved: Path, tmp_path: Path, share: float) -> None:
    data = saved.read_bytes()
    (tmp_path / "cut").write_bytes(data[: int(len(data) * share)])
    assert refused(engine, model, tmp_path / "cut")


def test_foreign_files_are_refused(engine: Engine, model: str, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a prefix")
    assert "is not a saved prefix" in refused(engine, model, tmp_path / "text")
    assert "is not a saved prefix" in refused(engine, model, Path(model))
    assert "cannot be read" in refused(engine, model, tmp_path / "missing")


def with_header(saved: Path, path: Path, **changes: Any) -> Path:
    line, _, body = saved.read_bytes().partition(b"\n")
    path.write_bytes(msgspec.json.encode({**msgspec.json.decode(line), **changes}) + b"\n" + body)
    return path


def test_another_version_is_refused(engine: Engine, model: str, saved: Path, tmp_path: Path) -> None:
    assert "version 2" in refused(engine, model, with_header(saved, tmp_path / "v", version=2))
    assert "llama.cpp 0.0.1" in refused(engine, model, with_header(saved, tmp_path / "l", llama_cpp="0.0.1"))


def test_absurd_counts_are_refused(engine: Engine, model: str, saved: Path, tmp_path: Path) -> None:
    for changes in (
        {"n_tokens": 0},
        {"n_tokens": -5},
        {"n_tokens": 2**40},
        {"state_bytes": -1},
        {"state_bytes": 2**60},
    ):
        assert "truncated" in refused(engine, model, with_header(saved, tmp_path / "c", **changes))


def test_the_prefix_of_another_model_is_refused(engine: Engine, saved: Path, tmp_path: Path) -> None:
    other = str(write_tiny("llama", tmp_path / "other.gguf", noise=0.7, seed=3))
    assert "belongs to another model" in refused(engine, other, saved)


def test_too_short_a_prefix_is_not_saved(engine: Engine, model: str, tmp_path: Path) -> None:
    with pytest.raises(PrefixError, match="not kept in memory"):
        engine.save_prefix(model, [{"role": "system", "content": "the"}], tmp_path / "short")
    assert not (tmp_path / "short").exists()


def test_recurrent_memory_is_refused(engine: Engine, tmp_path: Path) -> None:
    mamba = str(write_tiny("mamba", tmp_path / "mamba.gguf"))
    with pytest.raises(PrefixError, match="recurrent"):
        engine.save_prefix(mamba, WORLD, tmp_path / "mamba.prefix")


def test_an_unwritable_place_is_named(engine: Engine, model: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PrefixError, match="cannot be written"):
        engine.save_prefix(model, WORLD, tmp_path / "file" / "world.prefix")
