"""What read_gguf says of whole files, and how it refuses damaged ones."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from atelico.errors import ModelLoadError, ModelNotFoundError
from atelico.models import gguf_header
from atelico.models.gguf import GgufInfo, read_gguf, split_number
from atelico.models.gguf_header import Skipped, read_header
from atelico.models.gguf_tables import FILE_TYPES, TENSOR_TYPES
from support.tiny_models import write_tiny

Write = Callable[..., Path]


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, type_id: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", type_id) + value


def header(*pairs: bytes, n_tensors: int = 0, n_pairs: int | None = None, version: int = 3) -> bytes:
    counts = struct.pack("<4sIQQ", b"GGUF", version, n_tensors, len(pairs) if n_pairs is None else n_pairs)
    return counts + b"".join(pairs)


ARCHITECTURE = pair("general.architecture", 8, text("llama"))
CONTEXT = pair("llama.context_length", 4, struct.pack("<I", 64))
BLOCKS = pair("llama.block_count", 4, struct.pack("<I", 2))
MINIMAL = (ARCHITECTURE, CONTEXT, BLOCKS)


def refused(path: Path) -> ModelLoadError:
    """The error for `path`, which must name the file and say what to do."""
    with pytest.raises(ModelLoadError) as caught:
        read_gguf(path)
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def refused_bytes(folder: Path, data: bytes) -> str:
    path = folder / "bad.gguf"
    path.write_bytes(data)
    return refused(path).message


def test_smollm2_describes_itself(smollm2: Path) -> None:
    info = read_gguf(smollm2)
    assert (info.architecture, info.quantization, info.kind) == ("llama", "Q4_1", "model")
    assert (info.n_ctx_train, info.n_vocab, info.n_layer, info.n_params) == (8192, 49152, 30, 134_515_008)
    assert (info.bos_id, info.eos_id, info.add_bos, info.tokenizer_pre) == (1, 2, False, "smollm")
    assert info.chat_template is not None and "<|im_start|>" in info.chat_template
    assert info.size_bytes == smollm2.stat().st_size and info.parts == (smollm2,)
    assert not (info.is_embedding or info.is_recurrent or info.is_hybrid or info.has_nextn_tensors)


def test_gemma_describes_itself(gemma: Path) -> None:
    info = read_gguf(gemma)
    assert (info.architecture, info.quantization, info.n_vocab) == ("gemma3", "Q4_K_M", 262_144)
    assert (info.sliding_window, info.add_bos, info.chat_template) == (512, True, None)


def test_long_arrays_keep_only_their_length(smollm2: Path) -> None:
    values = read_header(smollm2).values
    assert values["tokenizer.ggml.tokens"] == Skipped(49_152)
    assert values["general.languages"] == ("en",)


def test_agrees_with_the_gguf_package(write_gguf: Write) -> None:
    from gguf import GGUFReader

    path = write_gguf("agree.gguf", tensors={"a": np.zeros((3, 5), np.float32), "b": np.zeros(7, np.float16)})
    theirs, ours = GGUFReader(path), read_header(path)
    assert [(t.name, t.shape, t.n_bytes) for t in ours.tensors] == [
        (t.name, tuple(int(n) for n in t.shape), int(t.n_bytes)) for t in theirs.tensors
    ]
    for key, value in ours.values.items():
        contents = theirs.fields[key].contents()
        if isinstance(value, Skipped):
            assert value.length == len(contents)
        else:
            assert value == (tuple(contents) if isinstance(contents, list) else contents)


def test_tables_agree_with_the_gguf_package() -> None:
    from gguf import GGML_QUANT_SIZES, LlamaFileType

    for kind, sizes in GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":  # never in a file; the package still has the size of an older layout
            assert TENSOR_TYPES[int(kind)] == (kind.name, *sizes)
    for kind in LlamaFileType:
        if kind in FILE_TYPES:
            assert FILE_TYPES[kind] == kind.name.removeprefix("MOSTLY_").removeprefix("ALL_").removesuffix("_MOE")


def test_strings_are_skipped_across_windows(write_gguf: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf("windows.gguf", n_vocab=3000)
    whole = read_header(path)
    monkeypatch.setattr(gguf_header, "WINDOW_BYTES", 37)
    assert read_header(path) == whole


def test_sampling_defaults_are_read_and_nonsense_counts_as_absent(write_gguf: Write) -> None:
    extra = [
        ("add_float32", "general.sampling.temp", 0.6),
        ("add_int32", "general.sampling.top_k", 20),
        ("add_float32", "general.sampling.top_p", 7.0),
        ("add_float32", "general.sampling.min_p", float("nan")),
        ("add_float32", "general.sampling.penalty_repeat", 1.5),
    ]
    sampling = read_gguf(write_gguf("sampling.gguf", extra=extra)).sampling
    assert sampling.temperature == pytest.approx(0.6)
    assert (sampling.top_k, sampling.repetition_penalty) == (20, 1.5)
    assert sampling.top_p is None and sampling.min_p is None


@pytest.mark.parametrize("with_tensors", [True, False])
def test_nextn_layers_are_counted_apart_and_their_tensors_looked_for(write_gguf: Write, with_tensors: bool) -> None:
    names = ["token_embd.weight", *(["blk.2.nextn.eh_proj.weight"] if with_tensors else [])]
    info = read_gguf(
        write_gguf(
            f"nextn-{with_tensors}.gguf",
            architecture="qwen35",
            n_blocks=3,
            extra=[("add_nextn_predict_layers", 1)],
            tensors={name: np.zeros((4, 4), np.float32) for name in names},
        )
    )
    assert (info.n_layer, info.nextn_predict_layers, info.has_nextn_tensors) == (2, 1, with_tensors)
    assert info.is_hybrid and not info.is_recurrent


def test_kinds_of_architecture(write_gguf: Write) -> None:
    def read(name: str, architecture: str, *extra: tuple[object, ...]) -> GgufInfo:
        return read_gguf(write_gguf(name, architecture=architecture, extra=list(extra)))

    assert read("mamba.gguf", "mamba2").is_recurrent
    assert read("bert.gguf", "nomic-bert").is_embedding
    assert read("pooled.gguf", "qwen3", ("add_uint32", "qwen3.pooling_type", 3)).is_embedding
    assert not read("unpooled.gguf", "qwen3", ("add_uint32", "qwen3.pooling_type", 0)).is_embedding
    assert read("ahead.gguf", "llama", ("add_bool", "llama.attention.causal", False)).is_embedding
    diffusion = read("dream.gguf", "dream", ("add_bool", "dream.attention.causal", False))
    assert diffusion.is_diffusion and not diffusion.is_embedding


def test_named_templates_and_foreign_token_ids(write_gguf: Write) -> None:
    extra = [
        ("add_string", "tokenizer.chat_template.tool_use", "TOOLS"),
        ("add_uint32", "tokenizer.ggml.eot_token_id", 0xFFFFFFFF),
    ]
    info = read_gguf(write_gguf("named.gguf", template="PLAIN", extra=extra))
    assert info.chat_template == "PLAIN" and dict(info.named_templates) == {"tool_use": "TOOLS"}
    assert dict(info.token_ids) == {"bos": 1, "eos": 2}


def test_unknown_file_type_is_named_by_its_number(write_gguf: Write, tmp_path: Path) -> None:
    file = tmp_path / "type.gguf"
    file.write_bytes(header(*MINIMAL, pair("general.file_type", 4, struct.pack("<I", 777))))
    assert read_gguf(file).quantization == "unknown (777)"
    file.write_bytes(header(*MINIMAL, pair("general.file_type", 4, struct.pack("<I", 1024 + 15))))
    assert read_gguf(file).quantization == "Q4_K_M"


def test_missing_file_type_is_guessed_from_the_tensors(tmp_path: Path) -> None:
    tensor = text("w") + struct.pack("<IQIQ", 1, 64, 2, 0)
    file = tmp_path / "guess.gguf"
    file.write_bytes((header(*MINIMAL, n_tensors=1) + tensor).ljust(512, b"\0"))
    assert read_gguf(file).quantization == "Q4_0"


def test_split_model_is_read_as_one(write_gguf: Write, tmp_path: Path) -> None:
    for number in range(2):
        split = [("add_uint16", "split.count", 2), ("add_uint16", "split.no", number)]
        weights = {f"w{number}": np.zeros((2, 3), np.float32)}
        write_gguf(f"m-{number + 1:05d}-of-00002.gguf", folder=tmp_path, extra=split, tensors=weights)
    first, second = sorted(tmp_path.iterdir())
    info = read_gguf(first)
    assert (info.n_tensors, info.n_params, info.parts) == (2, 12, (first, second))
    assert split_number(second) == (2, 2)
    assert first.name in str(refused(second))
    second.unlink()
    assert second.name in str(refused(first))


def test_renamed_part_of_a_split_model_is_explained(write_gguf: Write) -> None:
    path = write_gguf("renamed.gguf", extra=[("add_uint16", "split.count", 3), ("add_uint16", "split.no", 0)])
    assert "split into 3" in refused(path).message


def test_every_truncation_is_refused(write_gguf: Write, tmp_path: Path) -> None:
    data = write_gguf("whole.gguf", n_vocab=5, tensors={"w": np.zeros((4, 8), np.float32)}).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(0, len(data), 97):
        cut.write_bytes(data[:length])
        refused(cut)
    cut.write_bytes(data[:-1])
    assert "truncated" in refused(cut).message


def test_model_of_the_package_cut_short_is_refused(smollm2: Path, tmp_path: Path) -> None:
    with smollm2.open("rb") as file:
        data = file.read(6_000_000)
    message = refused_bytes(tmp_path, data)
    assert "truncated" in message and "98362432" in message


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"Hello, this is a text file and not a model.", "not a GGUF"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        (b"PK\x03\x04" + bytes(60), "zip"),
        (b"tjgg" + bytes(60), "before GGUF"),
        (b"GGUF", "truncated"),
        (header(version=1), "version 1"),
        (header(version=4), "version 4"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "big-endian"),
        (header(n_tensors=2**60), "tensors"),
        (header(n_pairs=2**63), "metadata entries"),
        (header(), "general.architecture"),
        (header(ARCHITECTURE), "llama.block_count"),
        (header(*MINIMAL, n_pairs=99), "ends inside its header"),
        (header(ARCHITECTURE, ARCHITECTURE), "repeated"),
        (header(pair("", 8, text("x"))), "empty metadata key"),
        (header(pair("general.architecture", 4, bytes(4))), "should be a text"),
        (header(ARCHITECTURE, CONTEXT, pair("llama.block_count", 8, text("many"))), "should be a whole number"),
        (header(ARCHITECTURE, CONTEXT, pair("llama.block_count", 10, b"\xff" * 8)), "impossible llama.block_count"),
        (header(*MINIMAL, pair("x", 99, b"")), "unknown type 99"),
        (header(*MINIMAL, pair("x", 8, struct.pack("<Q", 2**64 - 1))), "text of"),
        (header(*MINIMAL, pair("x", 9, struct.pack("<IQ", 9, 1))), "invalid type 9"),
        (header(*MINIMAL, pair("x", 9, struct.pack("<IQ", 8, 2**62))), "more than possible"),
        (header(*MINIMAL, pair("x", 9, struct.pack("<IQ", 8, 2000) + b"\xff" * 16000)), "ends inside its header"),
        (header(*MINIMAL, pair("x", 9, struct.pack("<IQ", 12, 2**24))), "ends inside its header"),
        (header(*MINIMAL, pair("general.alignment", 4, struct.pack("<I", 3))), "general.alignment"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<I", 5), "5 dimensions"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<IQIQ", 1, 8, 33, 0), "unknown type 33"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<IQIQ", 1, 31, 2, 0), "impossible shape"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<IQQIQ", 2, 2**62, 2**62, 0, 0), "impossible shape"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<IQIQ", 1, 2**40, 0, 0), "truncated"),
        (header(*MINIMAL, n_tensors=1) + text("w") + struct.pack("<IQIQ", 1, 8, 0, 64), "not 0"),
        (header(*MINIMAL, n_tensors=1) + text("w" * 64), "text of 64 bytes"),
        (header(*MINIMAL, n_tensors=2) + 2 * (text("w") + struct.pack("<IQIQ", 1, 0, 0, 0)), "two tensors"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_damaged_file_is_refused_with_its_reason(tmp_path: Path, data: bytes, reason: str) -> None:
    assert reason in refused_bytes(tmp_path, data)


def test_folder_pipe_and_missing_file_are_told_apart(tmp_path: Path) -> None:
    assert "folder" in refused(tmp_path).message
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.gguf")
        assert "ordinary file" in refused(tmp_path / "pipe.gguf").message
    for missing in (tmp_path / "no.gguf", tmp_path / "nul\0.gguf"):
        with pytest.raises(ModelNotFoundError):
            read_gguf(missing)


def test_good_file_is_read_after_a_bad_one(write_gguf: Write, tmp_path: Path) -> None:
    good = write_gguf("good.gguf")
    before = read_gguf(good)
    refused_bytes(tmp_path, b"GGUF" + b"\xff" * 100)
    assert read_gguf(good) == before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_mutation_parses_or_is_refused(write_gguf: Write, tmp_path: Path, data: st.DataObject) -> None:
    source = tmp_path / "source.gguf"
    if not source.exists():
        source.write_bytes(
            write_gguf(
                "mutate.gguf",
                n_vocab=4,
                extra=[("add_array", "general.tags", ["a", "b"]), ("add_float32", "general.sampling.temp", 0.5)],
                tensors={"a": np.zeros((2, 3), np.float32), "b": np.zeros(4, np.float16)},
            ).read_bytes()
        )
    mutated = bytearray(source.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        patch = data.draw(
            st.one_of(st.binary(min_size=1, max_size=9), st.sampled_from([b"\xff" * 8, bytes(8), b"\x00\x00\x00\x80"]))
        )
        mutated[at : at + len(patch)] = patch
    if data.draw(st.booleans()):
        del mutated[data.draw(st.integers(0, len(mutated))) :]
    path = tmp_path / "mutated.gguf"
    path.write_bytes(mutated)
    try:
        assert isinstance(read_gguf(path), GgufInfo)
    except ModelLoadError as error:
        assert str(path) in error.message


@pytest.mark.parametrize("architecture", ["mamba", "lfm2", "nemotron_h", "qwen35"])
def test_convolutions_and_states_are_no_matrices(tmp_path: Path, architecture: str) -> None:
    info = read_gguf(write_tiny(architecture, tmp_path / "tiny.gguf", quantised=True))
    assert info.matrix_types == ({"Q8_0", "F32"} if architecture == "mamba" else {"Q8_0"})  # Mamba's dt is too narrow


def test_the_router_of_experts_is_a_matrix_of_floats(tmp_path: Path) -> None:
    assert "F32" in read_gguf(write_tiny("qwen35moe", tmp_path / "tiny.gguf", quantised=True)).matrix_types
