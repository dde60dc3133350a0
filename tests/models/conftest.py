"""Model files for the tests of atelico.models: packaged ones where installed, tiny ones written here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from atelico.models.catalog import Catalog
from atelico.models.packaged import PACKAGED, installed_parts

Write = Callable[..., Path]


@pytest.fixture(scope="session")
def write_gguf(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes a tiny GGUF: `write_gguf(name, architecture=..., extra=[(method, args...)], tensors={name: array})`."""
    folder = tmp_path_factory.mktemp("gguf")

    def write(
        name: str,
        *,
        folder: Path = folder,
        architecture: str = "llama",
        n_vocab: int = 300,
        n_blocks: int = 2,
        template: str | None = None,
        extra: list[tuple[Any, ...]] | None = None,
        tensors: dict[str, np.ndarray[Any, Any]] | None = None,
    ) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = GGUFWriter(str(path), architecture)
        writer.add_name("tiny")
        writer.add_context_length(64)
        writer.add_block_count(n_blocks)
        writer.add_file_type(2)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list([f"t{i}" for i in range(n_vocab)])
        writer.add_token_merges([f"t{i} x" for i in range(1500)])
        writer.add_token_types([1] * n_vocab)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        if template is not None:
            writer.add_chat_template(template)
        for method, *arguments in extra or []:
            getattr(writer, method)(*arguments)
        for tensor, values in (tensors or {"token_embd.weight": np.zeros((n_vocab, 8), np.float32)}).items():
            writer.add_tensor(tensor, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def _packaged(name: str) -> Path:
    model = next(model for model in PACKAGED if model.name == name)
    if installed_parts(model) is None:
        pytest.skip(f"the pip package of {name} is not installed")
    return Catalog().resolve(name).path


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct, Q4_1."""
    return _packaged("SmolLM2-135M-Instruct")


@pytest.fixture(scope="session")
def gemma() -> Path:
    """gemma-3-270m, Q4_K_M, put together in the user's cache folder."""
    return _packaged("gemma-3-270m")
