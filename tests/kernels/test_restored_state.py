"""A state that was restored gives the bits of one that was read, wherever its cells lay when it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atelico import Engine, EngineConfig
from atelico.models.packaged import PACKAGED, installed_parts
from atelico.runtime import kernels
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.state_order import in_position_order
from support.chat import GEMMA, SMOLLM2
from support.prompts import PROMPTS

pytestmark = pytest.mark.skipif(kernels.own_tier() is None, reason="for our kernels")

N_TOKENS = 96


def sorted_positions(state: bytes) -> bool:
    """Whether the positions of the first part rise, 12 bytes after one another."""
    n_cells = int(np.frombuffer(state, np.uint32, 1, 12)[0])
    positions = np.frombuffer(state, np.int32, 3 * n_cells, 16)[::3]
    return n_cells == N_TOKENS and bool((np.diff(positions) > 0).all())


@pytest.mark.parametrize("name", [SMOLLM2, GEMMA])
def test_cells_out_of_order_are_saved_in_order(name: str) -> None:
    if installed_parts(next(model for model in PACKAGED if model.name == name)) is None:
        pytest.skip(f"the pip package of {name} is not installed")
    with Engine(EngineConfig()) as engine:
        model = Model(Path(engine.resolve(name).path), ModelOptions(n_gpu_layers=0))
    tokens = model.vocabulary.tokenize(" ".join(PROMPTS.values()))[: N_TOKENS + 1]
    sizes = ContextOptions(
        n_ctx=256, n_cells=256, n_batch=64, n_sequences=3, n_outputs=2, n_threads=1, n_exact=kernels.EVERY_WIDTH
    )
    context = Context(model, sizes)

    def feed(sequence: int, first: int, last: int) -> None:
        for start in range(first, last, 16):
            context.decode([Row(tokens[i], i, sequence, False) for i in range(start, start + 16)])

    try:
        feed(0, 0, N_TOKENS)
        expected = np.array(context.decode([Row(tokens[N_TOKENS], N_TOKENS, 0, True)]))
        context.clear(0)
        # Holes at the front of the memory, which later tokens of the sequence fill.
        feed(1, 0, 96)
        feed(0, 0, 48)
        feed(2, 0, 96)
        context.clear(1)
        feed(0, 48, N_TOKENS)
        raw = np.array(context.decode([Row(tokens[N_TOKENS], N_TOKENS, 0, True)]))
        assert (raw == expected).all()
        context.truncate(0, N_TOKENS)
        state = context.state(0)
        assert in_position_order(state) == state
        assert sorted_positions(state)
        context.clear(0)
        assert context.restore(0, state)
        restored = np.array(context.decode([Row(tokens[N_TOKENS], N_TOKENS, 0, True)]))
        assert (restored == expected).all()
    finally:
        context.close()
        model.close()


def test_another_layout_is_left_alone() -> None:
    assert in_position_order(b"") == b""
    assert in_position_order(b"\x02\x00\x00\x00 something else") == b"\x02\x00\x00\x00 something else"
