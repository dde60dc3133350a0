"""A row has the same bits at every width, with any number of threads and however the prompt before it was cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from atelico import Engine, EngineConfig
from atelico.models.packaged import PACKAGED, installed_parts
from atelico.runtime import kernels
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from support.chat import GEMMA, SMOLLM2
from support.prompts import PROMPTS

pytestmark = pytest.mark.skipif(kernels.own_tier() is None, reason="for our kernels")

N_BEFORE, N_AFTER = 270, 16


@pytest.fixture(params=[SMOLLM2, GEMMA])
def model_path(request: pytest.FixtureRequest) -> Path:
    name = request.param
    if installed_parts(next(model for model in PACKAGED if model.name == name)) is None:
        pytest.skip(f"the pip package of {name} is not installed")
    with Engine(EngineConfig()) as engine:
        return Path(engine.resolve(name).path)


def test_company_threads_and_chunks_change_no_bit(model_path: Path) -> None:
    model = Model(model_path, ModelOptions(n_gpu_layers=0))
    text = " ".join(PROMPTS.values()) * 3
    tokens = model.vocabulary.tokenize(text)[: N_BEFORE + N_AFTER]
    assert len(tokens) == N_BEFORE + N_AFTER

    def rows(n_threads: int, chunk: int, width: int, others: int = 0) -> npt.NDArray[np.float32]:
        """The logits after each of the last tokens, `width` of them in one pass, beside rows of another sequence."""
        sizes = ContextOptions(
            n_ctx=384,
            n_cells=1024,
            n_batch=512,
            n_sequences=2,
            n_outputs=N_AFTER,
            n_threads=n_threads,
            n_exact=kernels.EVERY_WIDTH,
        )
        context = Context(model, sizes)
        try:
            n_beside = 0
            for start in range(0, N_BEFORE, chunk):
                fed = range(start, min(start + chunk, N_BEFORE))
                beside = [Row(tokens[-1 - i], n_beside + i, 1, False) for i in range(others)]
                n_beside += others
                context.decode([*beside, *(Row(tokens[i], i, 0, False) for i in fed)])
            found = []
            for start in range(N_BEFORE, N_BEFORE + N_AFTER, width):
                fed = range(start, min(start + width, N_BEFORE + N_AFTER))
                logits = context.decode([Row(tokens[i], i, 0, True) for i in fed])
                assert logits is not None
                found.append(np.array(logits))
            return np.concatenate(found)
        finally:
            context.close()

    try:
        alone = rows(1, 64, 1)
        differing: Callable[..., int] = lambda *how: int((rows(*how) != alone).sum())  # noqa: E731
        assert differing(1, 64, 2) == 0
        assert differing(1, 64, 7) == 0
        assert differing(1, 64, 16) == 0
        assert differing(2, 64, 1) == 0
        assert differing(2, 64, 16) == 0
        assert differing(2, 1, 4) == 0
        assert differing(1, 7, 4) == 0
        assert differing(1, 512, 4) == 0
        assert differing(2, 32, 4, 16) == 0
    finally:
        model.close()
