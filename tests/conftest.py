"""Engines that all tests share, each loaded once per run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from atelico import Engine, EngineConfig
from atelico.models.packaged import PACKAGED, installed_parts
from atelico.runtime import kernels
from support.chat import GEMMA, SMOLLM2, Chat

# A process has one kind of kernels. tests/kernels/test_llama_cpp_kernels.py runs the tests of the other in a child.
kernels.choose("llama.cpp" if os.environ.get("ATELICO_KERNELS") == "llama.cpp" else "own")

# How fast values are drawn says something about this machine's other work, not about the tests.
settings.register_profile("shared machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("shared machine")


def _skip_unless_installed(name: str) -> None:
    packaged = next(model for model in PACKAGED if model.name == name)
    if installed_parts(packaged) is None:
        pytest.skip(f"the pip package of {name} is not installed")


@pytest.fixture(scope="session")
def smol() -> Iterator[Chat]:
    """SmolLM2 with a context of 1,024 tokens."""
    _skip_unless_installed(SMOLLM2)
    with Engine(EngineConfig(n_ctx=1024, n_threads=1)) as engine:
        yield Chat(engine, SMOLLM2)


@pytest.fixture(scope="session")
def small() -> Iterator[Chat]:
    """SmolLM2 with tight limits: one lane, 256 tokens of context, prompts read 64 tokens at a time."""
    _skip_unless_installed(SMOLLM2)
    with Engine(EngineConfig(n_ctx=256, n_batch=64, n_lanes=1, n_threads=1)) as engine:
        yield Chat(engine, SMOLLM2)


@pytest.fixture(scope="session")
def gemma() -> Iterator[Chat]:
    """Gemma 3 270M: a base model with a large vocabulary and sliding-window memory."""
    _skip_unless_installed(GEMMA)
    with Engine(EngineConfig(n_ctx=512, n_threads=1)) as engine:
        yield Chat(engine, GEMMA)


@pytest.fixture(scope="session")
def smollm2_file() -> Path:
    """The model file of SmolLM2."""
    _skip_unless_installed(SMOLLM2)
    with Engine(EngineConfig()) as engine:
        return engine.resolve(SMOLLM2).path
