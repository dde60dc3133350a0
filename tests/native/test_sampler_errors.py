"""What the sampler takes and what it refuses, each with a message that names the fault."""

from __future__ import annotations

import array
import ctypes
import gc
import math
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

from atelico._native import Sampler, gumbel

ROW = np.arange(100, dtype=np.float32)
MASK = np.full(4, -1, np.int32)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_p", 1.1),
        ("top_p", -0.1),
        ("top_p", math.nan),
        ("min_p", 2.0),
        ("min_p", math.nan),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", math.inf),
        ("frequency_penalty", math.nan),
        ("presence_penalty", -math.inf),
        ("logit_bias", {100: 1.0}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {2**40: 1.0}),
        ("logit_bias", {1: math.nan}),
        ("logit_bias", {1: math.inf}),
        ("seed", 2**64),
        ("seed", -(2**63) - 1),
        ("seed", 10**60),
    ],
)
def test_an_option_out_of_range_is_named(option: str, value: Any) -> None:
    with pytest.raises(ValueError, match=option):
        Sampler(100, **{option: value})


@pytest.mark.parametrize("n_vocab", [0, -1, 2**31])
def test_a_vocabulary_of_impossible_size_is_refused(n_vocab: int) -> None:
    with pytest.raises(ValueError, match="n_vocab"):
        Sampler(n_vocab)


@pytest.mark.parametrize("token", [-1, 100, 2**40])
def test_a_token_outside_the_vocabulary_is_refused_and_counts_nothing(token: int) -> None:
    sampler = Sampler(100, temperature=0.0, presence_penalty=50.0, repetition_penalty=50.0)
    with pytest.raises(ValueError, match=str(token)):
        sampler.accept(token)
    with pytest.raises(ValueError, match=str(token)):
        sampler.prime([99, token])
    assert sampler.sample(ROW, position=0).token == 99


def misaligned() -> np.ndarray[Any, Any]:
    return np.frombuffer(bytearray(401), np.float32, 100, offset=1)


@pytest.mark.parametrize(
    "row",
    [
        np.zeros(99, np.float32),
        np.zeros(101, np.float32),
        np.zeros(0, np.float32),
        np.zeros(100, np.float64),
        np.zeros(100, np.float16),
        np.zeros(100, np.int32),
        np.zeros(200, np.float32)[::2],
        np.zeros((20, 10), np.float32)[:, :5],
        np.zeros(100, ">f4"),
        misaligned(),
        b"\0" * 400,
        [0.0] * 100,
        None,
        "row",
    ],
    ids=repr,
)
def test_a_wrong_row_is_refused(row: Any) -> None:
    with pytest.raises(ValueError, match="row must be a C-contiguous buffer of 100 float32 values"):
        Sampler(100).sample(row, position=0)


@pytest.mark.parametrize(
    "mask",
    [
        np.zeros(3, np.int32),
        np.zeros(5, np.int32),
        np.zeros(4, np.int64),
        np.zeros(4, np.float32),
        np.zeros(16, np.uint8),
        np.zeros(4, ">i4"),
        np.zeros(8, np.int32)[::2],
        [0, 0, 0, 0],
    ],
    ids=repr,
)
def test_a_wrong_mask_is_refused(mask: Any) -> None:
    with pytest.raises(ValueError, match="mask must be a C-contiguous buffer of 4 int32 or uint32 values"):
        Sampler(100).sample(ROW, mask, position=0)


def read_only(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    values = values.copy()
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "row",
    [
        read_only(ROW),
        ROW.reshape(1, 100),
        array.array("f", ROW.tolist()),
        (ctypes.c_float * 100)(*ROW.tolist()),
        memoryview(ROW.tobytes()).cast("f"),
        np.arange(300, dtype=np.float32).reshape(3, 100)[0],
    ],
    ids=lambda row: type(row).__name__,
)
def test_any_float32_buffer_is_a_row(row: Any) -> None:
    assert Sampler(100, temperature=0.0).sample(row, position=0).token == 99


@pytest.mark.parametrize("mask", [read_only(MASK), MASK.view(np.uint32), (ctypes.c_uint32 * 4)(*[2**32 - 1] * 4)])
def test_any_32_bit_buffer_is_a_mask(mask: Any) -> None:
    assert Sampler(100, temperature=0.0).sample(ROW, mask, position=0).token == 99


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("n_vocab", [1, 100, 5000])
def test_a_row_where_nothing_is_possible_is_an_error(n_vocab: int, temperature: float) -> None:
    sampler = Sampler(n_vocab, temperature=temperature, top_k=5, top_p=0.5, min_p=0.1)
    row = np.zeros(n_vocab, np.float32)
    nothing = np.zeros(math.ceil(n_vocab / 32), np.int32)
    with pytest.raises(ValueError, match="no token"):
        sampler.sample(row, nothing, position=0)
    for value in (np.nan, -np.inf):
        with pytest.raises(ValueError, match="no token"):
            sampler.sample(np.full(n_vocab, value, np.float32), position=0, n_logprobs=3)
    banned = Sampler(n_vocab, temperature=temperature, logit_bias=dict.fromkeys(range(n_vocab), -math.inf))
    with pytest.raises(ValueError, match="no token"):
        banned.sample(row, position=0)
    assert sampler.sample(row, position=0).token < n_vocab  # and the next call works


def test_mask_bits_past_the_vocabulary_allow_nothing() -> None:
    mask = np.zeros(4, np.uint32)
    mask[3] = 0xFFFFFFF0  # tokens 100 to 127, which do not exist
    with pytest.raises(ValueError, match="no token"):
        Sampler(100).sample(ROW, mask, position=0)


@pytest.mark.parametrize("position", [-1, 2**63, 10**30])
def test_a_position_out_of_range_is_refused(position: int) -> None:
    with pytest.raises(ValueError, match="position"):
        Sampler(100).sample(ROW, position=position)
    with pytest.raises(ValueError, match="position"):
        gumbel(0, position, [0])


def test_arguments_of_a_wrong_type_are_type_errors() -> None:
    with pytest.raises(TypeError, match="seed"):
        Sampler(100, seed="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="position"):
        Sampler(100).sample(ROW, position=1.5)  # type: ignore[arg-type]


def test_n_logprobs_is_checked_and_optional() -> None:
    sampler = Sampler(100, temperature=0.0)
    with pytest.raises(ValueError, match="n_logprobs"):
        sampler.sample(ROW, position=0, n_logprobs=-1)
    without = sampler.sample(ROW, position=0)
    assert (without.logprob, without.top) == (None, [])
    bare = sampler.sample(ROW, position=0, n_logprobs=0)
    assert bare.logprob is not None
    assert bare.top == []
    assert len(sampler.sample(ROW, position=0, n_logprobs=1000).top) == 100


def test_a_hopeless_logprob_is_cut_at_minus_9999() -> None:
    row = np.array([-1e30, 0.0], np.float32)
    found = Sampler(2, temperature=0.0, logit_bias={1: -math.inf}).sample(row, position=0, n_logprobs=2)
    assert (found.token, found.logprob, found.top) == (0, -9999.0, [(1, 0.0), (0, -9999.0)])


def test_a_result_is_immutable() -> None:
    found = Sampler(100).sample(ROW, position=0)
    with pytest.raises(AttributeError):
        found.token = 1  # type: ignore[misc]
    assert repr(found).startswith(f"Sampled(token={found.token}, ")


def test_samplers_on_several_threads_do_not_disturb_each_other() -> None:
    row = np.random.default_rng(0).normal(0, 2, 50_000).astype(np.float32)
    alone = [Sampler(len(row), seed=3).sample(row, position=position).token for position in range(200)]
    results: dict[int, list[int]] = {}

    def work(name: int) -> None:
        sampler = Sampler(len(row), seed=3)
        results[name] = [sampler.sample(row, position=position).token for position in range(200)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(results.values()) == [alone] * 4


def test_sampling_keeps_no_reference_to_its_buffers() -> None:
    row, mask = bytearray(400), bytearray(16)
    rows = memoryview(row).cast("f")
    masks = memoryview(mask).cast("I")
    sampler = Sampler(100)
    with pytest.raises(ValueError, match="no token"):
        sampler.sample(rows, masks, position=0)
    sampler.sample(rows, position=0)
    rows.release()
    masks.release()
    row.append(0)  # raises BufferError while an export is alive
    mask.append(0)
    tracemalloc.start()
    sampler.sample(ROW, position=0)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for position in range(1_000):
        sampler.sample(ROW, MASK, position=position, n_logprobs=5)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 2_000


@pytest.mark.parametrize(
    "out",
    [np.empty(99), np.empty(101), np.empty(100, np.float32), np.empty(200)[::2], bytes(800)],
    ids=["short", "long", "float32", "gaps", "read only"],
)
def test_probabilities_are_written_into_a_fitting_buffer_only(out: Any) -> None:
    with pytest.raises(ValueError, match="out must be"):
        Sampler(100).probabilities(ROW, out=out)


def test_probabilities_are_not_written_into_a_read_only_array() -> None:
    out = np.zeros(100)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="writable"):
        Sampler(100).probabilities(ROW, out=out)
    assert not out.any()
