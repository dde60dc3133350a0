"""Model files that are no models, and that a good one works after each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest
from gguf import GGUFWriter

from atelico import Engine, EngineConfig
from atelico.decoding import worker
from atelico.errors import AtelicoError, ConfigError, ModelLoadError, ModelNotFoundError
from support.chat import SMOLLM2, Chat

QUESTION = "The secret word is falcon. What is the secret word?"


@pytest.fixture(scope="module")
def engine(smollm2_file: Path) -> Iterator[Engine]:
    assert smollm2_file.is_file()
    with Engine(EngineConfig(n_ctx=512, n_threads=1)) as engine:
        yield engine


def write_bad(kind: str, path: Path, good: Path) -> None:
    if kind == "garbage":
        path.write_bytes(bytes(range(256)) * 400)
    elif kind == "text":
        path.write_text("This is not a model. " * 100)
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "magic only":
        path.write_bytes(b"GGUF")
    elif kind == "truncated header":
        path.write_bytes(good.read_bytes()[:50_000])
    elif kind == "truncated weights":
        path.write_bytes(good.read_bytes()[:-1_000_000])
    else:
        writer = GGUFWriter(str(path), "unheard_of")
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


KINDS = ["garbage", "text", "empty", "magic only", "truncated header", "truncated weights", "unknown architecture"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_file_is_one_typed_error_and_a_good_one_works_after_it(
    engine: Engine, tmp_path: Path, smollm2_file: Path, kind: str
) -> None:
    bad = tmp_path / "bad.gguf"
    write_bad(kind, bad, smollm2_file)
    with pytest.raises(ModelLoadError) as caught:
        Chat(engine, str(bad)).ask("Hi")
    assert "bad.gguf" in caught.value.message
    assert caught.value.hint
    assert engine.model_state(str(bad)).state == "failed"
    assert "falcon" in Chat(engine, SMOLLM2).text(QUESTION).lower()


def test_a_file_that_was_mended_is_tried_again(engine: Engine, tmp_path: Path, smollm2_file: Path) -> None:
    path = tmp_path / "mended.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ModelLoadError):
        Chat(engine, str(path)).ask("Hi")
    path.unlink()
    path.symlink_to(smollm2_file)
    assert "falcon" in Chat(engine, str(path)).text(QUESTION).lower()
    assert engine.unload_model(str(path), timeout=20)


def test_all_who_wait_for_a_bad_file_get_the_error(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF")
    errors: list[BaseException | None] = []

    def ask() -> None:
        try:
            Chat(engine, str(path)).ask("Hi")
        except AtelicoError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [type(error) for error in errors] == [ModelLoadError] * 4


def test_a_missing_model_is_exactly_one_error_and_nothing_is_tried(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loads: list[object] = []
    monkeypatch.setattr(worker, "load", lambda *arguments: loads.append(arguments))
    missing = tmp_path / "missing.gguf"
    with pytest.raises(ModelNotFoundError, match=r"missing\.gguf") as caught:
        Chat(engine, str(missing)).submit("Hi")
    assert SMOLLM2 in caught.value.hint
    assert loads == []


@pytest.mark.parametrize("name", ["NPC Models/my model.gguf", "модели/木 🗝️.gguf", "a/b/c/deep.gguf", "it's [1]%.gguf"])
def test_a_path_may_have_spaces_and_any_letters(engine: Engine, tmp_path: Path, smollm2_file: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(smollm2_file)
    assert "falcon" in Chat(engine, str(path)).text(QUESTION).lower()
    assert engine.unload_model(str(path), timeout=20)


def test_models_of_a_folder_and_aliases_are_named_without_their_path(tmp_path: Path, smollm2_file: Path) -> None:
    (tmp_path / "org" / "npc").mkdir(parents=True)
    (tmp_path / "org" / "npc" / "talker-Q4_1.gguf").symlink_to(smollm2_file)
    config = EngineConfig(n_ctx=512, n_threads=1, model_folders=[str(tmp_path)], aliases={"guard": "org/npc"})
    with Engine(config) as engine:
        answer = Chat(engine, "in-memory::guard").ask(QUESTION)
        assert "falcon" in (answer.choices[0].message.content or "").lower()
        assert answer.model == "in-memory::guard"
        assert engine.resolve("talker") == engine.resolve("org/npc/talker-q4_1")
        assert engine.model_state("org/npc").state == "ready"


@pytest.mark.parametrize("n_ctx", [8193, 1_000_000, 2**31 - 1])
def test_a_context_longer_than_the_model_can_is_an_error_that_names_n_ctx(smollm2_file: Path, n_ctx: int) -> None:
    with (
        Engine(EngineConfig(n_ctx=n_ctx, n_threads=1)) as engine,
        pytest.raises(ConfigError, match=f"n_ctx is {n_ctx}"),
    ):
        Chat(engine, str(smollm2_file)).ask("Hi")


@pytest.mark.parametrize(
    "limits",
    [
        {"n_batch": 1},
        {"n_batch": 1, "n_lanes": 1, "max_draft": 0},
        {"n_batch": 4, "max_draft": 256, "n_lanes": 1},
        {"n_ctx": 1},
        {"n_batch": 65_536},
        {"n_lanes": 1, "n_kept": 0, "kv_tokens": 1},
    ],
    ids=str,
)
def test_extreme_sizes_answer_or_are_refused_but_never_abort(smollm2_file: Path, limits: dict[str, Any]) -> None:
    with Engine(EngineConfig(**{"n_ctx": 256, "n_threads": 1, **limits})) as engine:
        chat = Chat(engine, str(smollm2_file))
        fields = {"speculative": {"proposer": "prompt_lookup", "k": 16}, "atelico": {"governor": "off"}}
        try:
            answer = chat.ask("one two three one two three one two", max_tokens=16, **fields)
        except AtelicoError as error:
            assert error.http_status < 500
            assert error.hint
        else:
            assert answer.usage.completion_tokens > 0


def test_a_context_that_the_machine_has_no_room_for_is_refused_with_its_numbers(smollm2_file: Path) -> None:
    sizes = {"n_ctx": 256, "n_threads": 1, "n_lanes": 64, "max_draft": 256}
    with mock.patch.object(psutil, "virtual_memory") as memory, Engine(EngineConfig(**sizes)) as engine:
        memory.return_value.available = 1 << 30
        with pytest.raises(ModelLoadError, match="3,084 MiB for logits; 1,024 MiB are free") as caught:
            Chat(engine, str(smollm2_file)).ask("Hi")
    assert "n_lanes" in caught.value.hint
