"""Idle dialogues outside the KV cache: when they go there, what comes back, and that no text changes for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil
import pytest

from atelico import Engine, EngineConfig
from atelico.decoding.parked import Parked, ParkingLot
from atelico.decoding.sequences import Sequence, SequencePool
from atelico.runtime.context import Context, ContextOptions, Logits, Row
from atelico.runtime.model import Model, ModelOptions
from support.chat import Chat
from support.near_tie import MAX_GAP
from support.tiny_models import write_tiny

N_CELLS = 512
WINDOW = 32  # of the tiny gemma3
MakeContext = Callable[[str], Context]


def words(base: int, n: int) -> list[int]:
    """`n` tokens of the tiny vocabulary; different bases begin differently."""
    return [3 + (base + i) % 250 for i in range(n)]


FIRST, SECOND, THIRD = words(0, 60), words(80, 60), words(160, 60)


@pytest.fixture
def context_of(tmp_path: Path) -> Iterator[MakeContext]:
    """Makes a context of four sequences of a tiny model."""
    opened: list[Model | Context] = []

    def make(name: str) -> Context:
        model = Model(write_tiny(name, tmp_path / f"{name}.gguf", noise=0.7), ModelOptions())
        sizes = ContextOptions(n_ctx=N_CELLS, n_cells=N_CELLS, n_batch=64, n_sequences=4, n_outputs=1, n_threads=1)
        opened.extend([model, Context(model, sizes)])
        assert isinstance(opened[-1], Context)
        return opened[-1]

    yield make
    for one in reversed(opened):
        one.close()


@pytest.fixture
def context(context_of: MakeContext) -> Context:
    return context_of("llama")


@pytest.fixture
def pool(context: Context) -> SequencePool:
    return SequencePool(context)


def read(context: Context, sequence: Sequence, tokens: list[int]) -> Logits:
    """Read what `sequence` does not hold of `tokens`, as a lane would; the logits after the last one."""
    logits = None
    for start in range(len(sequence.tokens), len(tokens), context.n_batch):
        chunk = range(start, min(start + context.n_batch, len(tokens)))
        logits = context.decode([Row(tokens[i], i, sequence.id, i == len(tokens) - 1) for i in chunk])
    assert logits is not None
    return logits[-1].copy()


def serve(pool: SequencePool, context: Context, tokens: list[int]) -> int:
    """One request from beginning to end; returns how many tokens were reused."""
    sequence = pool.acquire(tokens, len(tokens) + 1)
    assert sequence is not None
    n_reused = len(sequence.tokens)
    read(context, sequence, tokens)
    pool.release(sequence, tokens)
    return n_reused


def lengths(context: Context) -> list[int]:
    """Tokens in the KV cache, of each sequence that has any."""
    return [n for n in (context.length(i) for i in range(context.n_sequences)) if n]


def test_an_idle_dialogue_leaves_the_kv_cache_when_another_starts(pool: SequencePool, context: Context) -> None:
    for tokens in (FIRST, SECOND, THIRD):
        serve(pool, context, tokens)
        assert lengths(context) == [60]
        assert pool.n_cells == 60


def test_a_parked_dialogue_goes_on_where_it_was(pool: SequencePool, context: Context) -> None:
    for turn in range(3):
        for tokens in (FIRST, SECOND, THIRD):
            assert serve(pool, context, [*tokens, *words(200, turn)]) == (len(tokens) + turn - 1 if turn else 0)


def test_a_dialogue_that_is_alone_stays_in_place(pool: SequencePool, context: Context) -> None:
    with mock.patch.object(context, "state") as state:
        for n in (40, 50, 60):
            serve(pool, context, FIRST[:n])
    state.assert_not_called()


def together(pool: SequencePool, context: Context) -> None:
    """FIRST and SECOND run at the same time, their cells interleaved; both are idle afterwards."""
    lanes = [(pool.acquire(tokens, 80), tokens) for tokens in (FIRST, SECOND)]
    for i in range(len(FIRST)):
        context.decode([Row(tokens[i], i, lane.id, False) for lane, tokens in lanes if lane is not None])
    for lane, tokens in lanes:
        assert lane is not None
        pool.release(lane, tokens)


def test_a_dialogue_moves_to_the_lowest_cells_when_those_between_its_own_are_free(
    pool: SequencePool, context: Context
) -> None:
    together(pool, context)
    with mock.patch.object(context, "restore", wraps=context.restore) as restore:
        assert [serve(pool, context, [*FIRST, *words(200, n)]) for n in (1, 2)] == [60, 61]
    restore.assert_called_once()  # the second time it has been alone
    assert serve(pool, context, [*SECOND, 7]) == 60


def test_a_dialogue_past_its_window_is_not_moved_since_it_could_not_be_cut_then(context_of: MakeContext) -> None:
    context = context_of("gemma3")
    pool = SequencePool(context)
    together(pool, context)
    assert serve(pool, context, [*FIRST[:20], 7]) == 20


def test_a_dialogue_that_runs_is_not_parked(pool: SequencePool, context: Context) -> None:
    running = pool.acquire(FIRST, 80)
    assert running is not None
    read(context, running, FIRST)
    serve(pool, context, SECOND)
    serve(pool, context, THIRD)
    assert context.length(running.id) == len(FIRST)
    assert sorted(lengths(context)) == [60, 60]


def test_another_character_takes_the_world_and_leaves_the_dialogue_parked(pool: SequencePool, context: Context) -> None:
    first, second, third = ([*FIRST[:40], *words(base, 30)] for base in (90, 130, 170))
    assert [serve(pool, context, tokens) for tokens in (first, second)] == [0, 40]
    serve(pool, context, SECOND)  # both are parked now
    assert serve(pool, context, third) == 40
    assert [serve(pool, context, [*tokens, 7]) for tokens in (first, second, third)] == [70, 70, 70]


def test_of_equally_long_prefixes_the_live_one_is_taken(pool: SequencePool, context: Context) -> None:
    world = FIRST[:40]
    serve(pool, context, [*world, *words(90, 30)])
    serve(pool, context, [*world, *words(130, 30)])
    with mock.patch.object(context, "restore") as restore:
        assert serve(pool, context, [*world, *words(170, 30)]) == 40
    restore.assert_not_called()


def test_a_parked_dialogue_waits_for_room_and_is_not_lost(pool: SequencePool, context: Context) -> None:
    serve(pool, context, FIRST)
    running = pool.acquire(SECOND, N_CELLS - 70)
    assert running is not None
    assert pool.acquire([*FIRST, 7], 100) is None
    pool.forget(running)
    assert serve(pool, context, [*FIRST, 7]) == len(FIRST)


def test_the_least_recently_used_parked_dialogue_is_forgotten_first(context: Context) -> None:
    lot = ParkingLot(context)
    for last_used, tokens in ((2, FIRST), (1, SECOND), (3, THIRD)):
        lot.add(Parked(tokens, b"", last_used), n_most=2)
    assert lot.take(SECOND, 0) is None
    for tokens in (FIRST, THIRD):
        taken = lot.take(tokens, 0)
        assert taken is not None and taken.tokens == tokens
        assert lot.take(tokens, 0) is None


def test_parked_dialogues_hold_no_more_tokens_than_the_kv_cache(context: Context) -> None:
    lot = ParkingLot(context)
    for last_used in range(4):
        lot.add(Parked(words(50 * last_used, 200), b"", last_used), n_most=9)
    assert [lot.take(words(50 * i, 200), 0) is not None for i in range(4)] == [False, False, True, True]


def test_nothing_is_parked_where_the_machine_has_no_memory_left(pool: SequencePool, context: Context) -> None:
    with mock.patch.object(psutil, "virtual_memory") as memory:
        memory.return_value.available = 1000
        serve(pool, context, FIRST)
        serve(pool, context, SECOND)
    memory.assert_called()
    assert serve(pool, context, FIRST) == 0
    assert serve(pool, context, SECOND) == len(SECOND) - 1


def test_nothing_is_parked_where_nothing_is_kept(context_of: MakeContext) -> None:
    context = context_of("llama")
    with mock.patch.object(context, "n_sequences", 1), mock.patch.object(context, "state") as state:
        pool = SequencePool(context)
        for tokens in (FIRST, SECOND, FIRST):
            assert serve(pool, context, tokens) == 0
    state.assert_not_called()


def test_a_window_that_is_gone_is_not_cut(context_of: MakeContext) -> None:
    """What is parked has only the last window of the layers that see no more; a live dialogue still has all."""
    context = context_of("gemma3")
    pool = SequencePool(context)
    serve(pool, context, FIRST)
    assert serve(pool, context, [*FIRST[:-20], *words(200, 20)]) == len(FIRST) - 20
    serve(pool, context, SECOND)
    assert serve(pool, context, [*FIRST[: WINDOW + 5], *words(210, 20)]) == 0
    assert serve(pool, context, [*FIRST, 7]) == len(FIRST)
    serve(pool, context, SECOND)
    assert serve(pool, context, [*FIRST, 8]) == len(FIRST)


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_any_traffic_computes_what_a_fresh_memory_computes(context_of: MakeContext, name: str) -> None:
    """Dialogues with a common world that grow, are cut, overlap and come back past the end of the window."""
    context, fresh = context_of(name), context_of(name)
    pool, chance = SequencePool(context), random.Random(3)
    world = words(20, 24)
    dialogues = [[*world, *words(70 * i, 20)] for i in range(5)]
    running: list[tuple[Sequence, list[int]]] = []
    n_reused = 0
    for _ in range(150):
        if len(running) == 2:
            sequence, tokens = running.pop(0)
            pool.release(sequence, tokens)
        i = chance.randrange(5)
        cut = chance.choice([0, 0, 0, 1, 2, 10, 60])
        base = dialogues[i][: max(len(world), len(dialogues[i]) - cut)] if len(dialogues[i]) < 140 else world
        dialogues[i] = tokens = [*base, *words(chance.randrange(250), chance.randint(1, 12))]
        acquired = pool.acquire(tokens, len(tokens) + 1)
        assert acquired is not None
        assert acquired.tokens == tokens[: len(acquired.tokens)]
        n_reused += len(acquired.tokens)
        fresh.clear(0)
        expected = read(fresh, Sequence(0), tokens)
        assert np.abs(read(context, acquired, tokens) - expected).max() < 0.02 * np.abs(expected).max()
        acquired.tokens = tokens
        running.append((acquired, tokens))
        assert pool.n_cells <= N_CELLS
        assert len(lengths(context)) <= 3
    assert n_reused > 3000


def test_recurrent_memory_is_never_parked(context_of: MakeContext) -> None:
    context = context_of("mamba")
    pool = SequencePool(context)
    with mock.patch.object(context, "state") as state:
        for tokens in (FIRST, SECOND, FIRST):
            assert serve(pool, context, tokens) == 0
    state.assert_not_called()


# --- whole requests ------------------------------------------------------------------------------------------------


def dialogue(chat: Chat, subjects: tuple[str, str], **fields: Any) -> list[tuple[list[int], str]]:
    """Two dialogues turn by turn: of each, the cached tokens of its turns, and all that was said."""
    histories: list[list[dict[str, str]]] = [[], []]
    cached: list[list[int]] = [[], []]
    for question in ("Tell me about {}.", "And what else is there to say about {}?", "Who owns {}?"):
        for history, counts, subject in zip(histories, cached, subjects, strict=True):
            history.append({"role": "user", "content": question.format(subject)})
            answer = chat.ask(history, max_tokens=40, **fields)
            history.append({"role": "assistant", "content": answer.choices[0].message.content or ""})
            counts.append(answer.atelico.cached_tokens)
    return [
        (counts, "\n".join(m["content"] for m in history)) for counts, history in zip(cached, histories, strict=True)
    ]


@pytest.mark.parametrize("name", ["smol", "gemma"])
def test_dialogues_that_alternate_go_on_from_memory(request: pytest.FixtureRequest, name: str) -> None:
    chat: Chat = request.getfixturevalue(name)
    for counts, _ in dialogue(chat, ("the old mill", "a red apple")):
        assert counts[1] > 40
        assert counts[2] > counts[1] + 40
    assert len(lengths(chat.loaded.context)) == 1


def test_the_next_row_of_a_real_model_is_the_same_after_parking(smol: Chat) -> None:
    context = smol.loaded.context
    prompt = smol.tokenize("The old mill by the river has been abandoned for years, and nobody knows who owns it. " * 6)
    rows = []
    smol.text("Hello.", max_tokens=1)  # the engine sleeps now, and sequences 1 and 2 are empty
    for sequence in (1, 2):
        read(context, Sequence(sequence), prompt)
        if sequence == 1:
            state = context.state(1)
            context.clear(1)
            assert context.restore(1, state)
        rows.append(read(context, Sequence(sequence, prompt), [*prompt, prompt[0]]))
    context.clear(1)
    context.clear(2)
    assert np.abs(rows[0] - rows[1]).max() < MAX_GAP


def test_alternating_dialogues_say_what_they_say_alone(tmp_path: Path) -> None:
    """A model in 32-bit floats, so that the place of cells in memory decides nothing."""
    model = str(write_tiny("llama", tmp_path / "llama.gguf", noise=0.7, seed=2))
    subjects = ("the old stone", "her lost key")
    with Engine(EngineConfig(n_ctx=1024, n_threads=1)) as engine:
        chat = Chat(engine, model)
        kept, afresh = dialogue(chat, subjects), dialogue(chat, subjects, cache_prompt=False)
    for (counts, text), (none, text_afresh) in zip(kept, afresh, strict=True):
        assert none == [0, 0, 0]
        assert counts[2] > counts[1] > 40
        assert text == text_afresh


def test_alternating_requests_do_not_grow_the_process(tmp_path: Path) -> None:
    model = str(write_tiny("llama", tmp_path / "llama.gguf", noise=0.7, seed=2))
    process, sizes = psutil.Process(), []
    with Engine(EngineConfig(n_ctx=512, n_threads=1)) as engine:
        chat = Chat(engine, model)
        for i in range(200):
            chat.text(("the old miller lost her key " * 12) + ("near the mill", "under the stone", "old")[i % 3])
            if i in (60, 199):
                sizes.append(process.memory_info().rss)
    assert sizes[1] - sizes[0] < 8 * 2**20
