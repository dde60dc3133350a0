"""One engine over a folder of tiny models: encoders, a causal embedding model, a chat model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from gguf import PoolingType

from atelico import Engine, EngineConfig
from atelico.server.options import ServerOptions
from support.server import Running, running_server
from support.tiny_encoder import write_bert, write_causal
from support.tiny_models import write_tiny


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("embedding-models")
    write_bert(folder / "bert.gguf")
    write_bert(folder / "bert-cls.gguf", pooling=PoolingType.CLS)
    write_bert(folder / "bert-unpooled.gguf", pooling=None)
    write_bert(folder / "reranker.gguf", pooling=PoolingType.RANK)
    write_causal(folder / "causal.gguf")
    write_tiny("llama", folder / "chat.gguf")
    return folder


def config(folder: Path) -> EngineConfig:
    return EngineConfig(model_folders=[str(folder)], n_threads=1)


@pytest.fixture(scope="package")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(config(folder)) as engine:
        yield engine


@pytest.fixture
def fresh(folder: Path) -> Iterator[Engine]:
    """An engine that has loaded nothing yet."""
    with Engine(config(folder)) as engine:
        yield engine


@pytest.fixture(scope="package")
def server(engine: Engine) -> Iterator[Running]:
    with running_server(engine, ServerOptions(port=0, grace_s=2.0)) as running:
        yield running


@pytest.fixture
def openai_client(server: Running) -> Iterator[openai.OpenAI]:
    """Unmodified, but for the server's address and any key."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0, timeout=60) as made:
        yield made
