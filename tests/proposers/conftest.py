"""Engines of the proposers' tests: one lane, nothing kept, one thread, tiny models of every kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from atelico import Engine, EngineConfig
from support.tiny_models import write_tiny

ALONE = EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models, each named after what it is."""
    folder = tmp_path_factory.mktemp("tiny-proposers")
    for architecture in ("llama", "gemma3", "mamba", "lfm2", "qwen35"):
        write_tiny(architecture, folder / f"{architecture}.gguf", noise=0.7, seed=2)
    return folder


@pytest.fixture(scope="session")
def tiny_engine() -> Iterator[Engine]:
    """For tiny models, on the CPU."""
    with Engine(ALONE) as engine:
        yield engine
