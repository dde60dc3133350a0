"""Engines of the exactness tests: one lane, nothing kept, one thread, so that a run can be replayed bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from atelico import Engine, EngineConfig
from atelico.models.packaged import PACKAGED, installed_parts
from support.tiny_models import write_tiny

ALONE = EngineConfig(n_ctx=1024, n_threads=1, n_lanes=1, n_kept=0)


@pytest.fixture(scope="session")
def real_engine() -> Iterator[Engine]:
    """For the models of the pip packages."""
    with Engine(ALONE) as engine:
        yield engine


@pytest.fixture
def installed_model() -> Callable[[str], str]:
    """The name it is given; skips the test where that model's package is not installed."""

    def checked(name: str) -> str:
        if installed_parts(next(model for model in PACKAGED if model.name == name)) is None:
            pytest.skip(f"the pip package of {name} is not installed")
        return name

    return checked


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models, each named after what it is."""
    folder = tmp_path_factory.mktemp("tiny")
    write_tiny("llama", folder / "llama.gguf", noise=0.7, seed=2)
    write_tiny("llama", folder / "ending.gguf", noise=0.7, seed=2, end_every=9)
    for architecture in ("gemma3", "mamba", "lfm2", "qwen35"):
        write_tiny(architecture, folder / f"{architecture}.gguf")
    write_tiny("qwen35", folder / "qwen35-quantised.gguf", quantised=True)
    return folder


@pytest.fixture(scope="session")
def tiny_engine() -> Iterator[Engine]:
    """For tiny models, on the CPU."""
    with Engine(ALONE) as engine:
        yield engine
