"""Sequences in memory: reuse, sharing, eviction, and the account of cells, on a real context."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atelico.decoding.sequences import MIN_SHARED, Sequence, SequencePool
from atelico.runtime.context import Context, ContextOptions, Row
from atelico.runtime.model import Model, ModelOptions
from atelico.runtime.prefix import common_prefix
from support.tiny_models import write_tiny

N_CELLS = 512


def words(base: int, n: int) -> list[int]:
    """`n` tokens of the tiny vocabulary; different bases begin differently."""
    return [3 + (base + i) % 250 for i in range(n)]


WORLD = words(200, 40)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    model = Model(write_tiny("llama", tmp_path_factory.mktemp("tiny") / "llama.gguf"), ModelOptions())
    yield model
    model.close()


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    context = Context(
        model, ContextOptions(n_ctx=N_CELLS, n_cells=N_CELLS, n_batch=64, n_sequences=5, n_outputs=1, n_threads=1)
    )
    yield context
    context.close()


@pytest.fixture
def pool(context: Context) -> SequencePool:
    return SequencePool(context)


def read(context: Context, sequence: Sequence, tokens: list[int]) -> list[int]:
    """Read what `sequence` does not hold of `tokens`, as a lane would."""
    missing = tokens[len(sequence.tokens) :]
    first = len(sequence.tokens)
    for start in range(0, len(missing), context.n_batch):
        chunk = missing[start : start + context.n_batch]
        context.decode([Row(token, first + start + i, sequence.id, False) for i, token in enumerate(chunk)])
    return tokens


def serve(pool: SequencePool, context: Context, tokens: list[int]) -> int:
    """One request from beginning to end; returns how many tokens were reused."""
    sequence = pool.acquire(tokens, len(tokens) + 1)
    assert sequence is not None
    n_reused = len(sequence.tokens)
    pool.release(sequence, read(context, sequence, tokens))
    return n_reused


def test_the_next_turn_continues_the_same_sequence(pool: SequencePool, context: Context) -> None:
    first = [*WORLD, 1, 2, 3]
    assert serve(pool, context, first) == 0
    assert serve(pool, context, [*first, 4, 5, 6]) == len(first)
    assert sum(bool(pool.cached_tokens(i)) for i in range(context.n_sequences)) == 1


def test_a_second_character_shares_the_world_and_leaves_the_first_alone(pool: SequencePool, context: Context) -> None:
    first, second = [*WORLD, *words(1, 30)], [*WORLD, *words(50, 31)]
    serve(pool, context, first)
    cells = pool.n_cells
    assert serve(pool, context, second) == len(WORLD)
    assert pool.n_cells - cells <= len(second) - len(WORLD) + 1
    assert serve(pool, context, [*first, 99]) == len(first)


def test_a_running_lane_shares_what_it_has_read(pool: SequencePool, context: Context) -> None:
    running = pool.acquire([*WORLD, 1], len(WORLD) + 50)
    assert running is not None
    running.tokens = read(context, running, [*WORLD, 1])
    other = pool.acquire([*WORLD, 2], len(WORLD) + 50)
    assert other is not None and other is not running
    assert other.tokens == WORLD
    assert context.length(running.id) == len(WORLD) + 1


def test_the_last_prompt_token_is_always_read_anew(pool: SequencePool, context: Context) -> None:
    serve(pool, context, WORLD)
    assert serve(pool, context, WORLD) == len(WORLD) - 1


def test_a_short_common_beginning_is_not_worth_sharing(pool: SequencePool, context: Context) -> None:
    short = WORLD[: MIN_SHARED - 1]
    serve(pool, context, [*short, *words(1, 39)])
    assert serve(pool, context, [*short, *words(60, 30)]) == 0


def test_without_reuse_the_prompt_is_read_afresh(pool: SequencePool, context: Context) -> None:
    serve(pool, context, WORLD)
    sequence = pool.acquire([*WORLD, 5], 60, reuse=False)
    assert sequence is not None
    assert sequence.tokens == []


def test_the_least_recently_used_dialogue_is_forgotten_first(pool: SequencePool, context: Context) -> None:
    dialogues = [words(base, 40) for base in (0, 50, 100, 150, 175)]
    for dialogue in dialogues:
        serve(pool, context, dialogue)
    serve(pool, context, [*dialogues[0], 7])
    serve(pool, context, words(225, 40))  # needs a sequence: the second dialogue goes
    assert serve(pool, context, [*dialogues[0], 7, 8]) == 41
    assert serve(pool, context, [*dialogues[1], 7]) == 0


def test_a_lane_that_does_not_fit_beside_running_ones_waits(pool: SequencePool, context: Context) -> None:
    running = pool.acquire([1], N_CELLS - 100)
    assert running is not None
    assert pool.acquire([2], 101) is None
    assert pool.acquire([2], 100) is not None


def test_idle_dialogues_make_room(pool: SequencePool, context: Context) -> None:
    for base in (0, 50, 100):
        serve(pool, context, words(base, 100))
    assert pool.acquire([1], N_CELLS - 10) is not None
    assert pool.n_cells <= N_CELLS


def test_a_prefix_that_leaves_no_room_to_share_it_is_continued_in_place(pool: SequencePool, context: Context) -> None:
    serve(pool, context, [*WORLD, *words(1, 300)])
    sequence = pool.acquire([*WORLD, *words(50, 60)], N_CELLS - 20)
    assert sequence is not None
    assert sequence.tokens == WORLD
    assert pool.n_cells <= N_CELLS


def test_with_a_single_sequence_any_request_can_follow_any_other(model: Model) -> None:
    context = Context(
        model, ContextOptions(n_ctx=256, n_cells=256, n_batch=64, n_sequences=1, n_outputs=1, n_threads=1)
    )
    pool = SequencePool(context)
    for tokens in ([*WORLD, *words(1, 100)], [*WORLD, *words(50, 100)], [*WORLD, *words(1, 100)], words(90, 120)):
        assert serve(pool, context, tokens) in (0, len(WORLD))
    context.close()


def test_an_idle_memory_takes_any_request_that_fits_the_context(context: Context) -> None:
    """Nothing but running lanes may keep a request waiting; otherwise it would wait for ever."""
    pool, chance = SequencePool(context), random.Random(11)
    for _ in range(120):
        world = chance.choice([WORLD, words(20, 40), []])
        tokens = [*world, *(chance.randrange(3, 250) for _ in range(chance.randint(2, 60)))]
        sequence = pool.acquire(tokens, chance.randint(len(tokens) + 1, N_CELLS))
        assert sequence is not None
        pool.release(sequence, read(context, sequence, tokens))


def test_cells_live_on_when_their_first_owner_is_forgotten(pool: SequencePool, context: Context) -> None:
    first, second = [*WORLD, *words(1, 30)], [*WORLD, *words(50, 31)]
    owner = pool.acquire(first, len(first) + 1)
    assert owner is not None
    owner.tokens = read(context, owner, first)
    heir = pool.acquire(second, len(second) + 1)
    assert heir is not None and heir.tokens == WORLD
    read(context, heir, second)
    pool.forget(owner)
    pool.release(heir, second)
    assert pool.n_cells == len(second)
    assert serve(pool, context, [*second, 99]) == len(second)


def test_a_state_that_was_exported_is_adopted_whole(pool: SequencePool, context: Context) -> None:
    serve(pool, context, [*WORLD, 1, 2])
    state = pool.export(WORLD)
    assert state is not None
    assert pool.export([9, *WORLD]) is None
    other = SequencePool(context)
    for i in range(context.n_sequences):
        context.clear(i)
    assert other.adopt(WORLD, state)
    assert serve(other, context, [*WORLD, 3]) == len(WORLD)
    assert not other.adopt(WORLD, state[:100])


def test_memory_and_its_account_agree_through_any_traffic(context: Context) -> None:
    """300 random requests: the mirror equals the memory, and the account never exceeds it by more than it may."""
    pool, chance = SequencePool(context), random.Random(5)
    running: list[tuple[Sequence, list[int]]] = []
    for _ in range(300):
        if running and chance.random() < 0.5:
            sequence, tokens = running.pop(chance.randrange(len(running)))
            pool.release(sequence, tokens[: chance.randint(len(tokens) - 2, len(tokens))])
        else:
            world = chance.choice([WORLD, words(20, 40), []])
            tokens = [*world, *(chance.randrange(3, 250) for _ in range(chance.randint(2, 60)))]
            acquired = pool.acquire(tokens, len(tokens) + 5)
            if acquired is not None:
                assert acquired.tokens == tokens[: len(acquired.tokens)]
                acquired.tokens = read(context, acquired, tokens)
                running.append((acquired, tokens))
        for sequence in pool._sequences:
            assert context.length(sequence.id) == len(sequence.tokens)
        assert pool.n_cells <= N_CELLS


@given(st.lists(st.integers(0, 2), max_size=30), st.lists(st.integers(0, 2), max_size=30))
def test_common_prefix_equals_the_plain_count(a: list[int], b: list[int]) -> None:
    expected = 0
    while expected < min(len(a), len(b)) and a[expected] == b[expected]:
        expected += 1
    assert common_prefix(a, b) == expected
