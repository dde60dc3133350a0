"""Engines of the proposers' tests: one lane, nothing kept, one thread, tiny models of every kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atelico import Engine
from support.observe import Run, run
from support.prompts import request
from support.tiny_answers import ALONE, WORDS, Answer
from support.tiny_models import write_tiny


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models, each named after what it is; `drafted` has a smaller model beside it."""
    folder = tmp_path_factory.mktemp("tiny-proposers")
    for architecture in ("llama", "gemma3", "mamba"):
        write_tiny(architecture, folder / f"{architecture}.gguf", noise=0.7, seed=2)
    for architecture in ("lfm2", "nemotron_h", "qwen35", "qwen35moe"):
        write_tiny(architecture, folder / f"{architecture}.gguf", noise=0.7, seed=2, quantised=True)
    for head in ("aligned", "random"):
        write_tiny("qwen35", folder / f"head-{head}.gguf", noise=0.5, seed=2, head=head, quantised=True)
    write_tiny("qwen35moe", folder / "head-of-experts.gguf", noise=0.5, seed=2, head="aligned", quantised=True)
    write_tiny("llama", folder / "drafted.gguf", noise=0.7, seed=2)
    write_tiny("llama", folder / "drafted-draft.gguf", noise=0.3, seed=2, n_layer=1)
    return folder


@pytest.fixture(scope="session")
def tiny_engine() -> Iterator[Engine]:
    """For tiny models, on the CPU."""
    with Engine(ALONE) as engine:
        yield engine


@pytest.fixture(scope="session")
def answer(tiny_engine: Engine, tiny_folder: Path) -> Answer:
    """Answers a request to a tiny model, plainly and greedily unless fields say otherwise."""

    def answered(model: str, text: str = WORDS, max_tokens: int = 120, **fields: object) -> Run:
        body = request(str(tiny_folder / f"{model}.gguf"), text, max_tokens=max_tokens, **{"temperature": 0, **fields})
        return run(tiny_engine, body)

    return answered
