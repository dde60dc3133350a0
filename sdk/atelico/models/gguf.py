"""What a GGUF says about itself, typed and named: architecture, quantisation, sizes, tokenizer, template, defaults.

The bytes are read in gguf_header.py. Nothing here loads weights.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from atelico.errors import ModelLoadError
from atelico.models.gguf_header import Header, Skipped, Tensor, Value, load_error, read_header
from atelico.models.gguf_tables import DIFFUSION, ENCODERS, FILE_TYPE_GUESSED, FILE_TYPES, HYBRID, RECURRENT

_INT32_MAX: Final = 2**31 - 1
_SPLIT_NAME: Final = re.compile(r"^(?P<prefix>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
# Tensors of two dimensions that recurrent layers use row by row.
_NO_MATRIX: Final = re.compile(r"\.(ssm_conv1d|shortconv\.conv|ssm_a|ssm_d|ssm_norm)(\.weight)?$")


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """The sampling options a model's maker recommends (`general.sampling.*`); None where the file has none.

    A value that is out of range for its option counts as absent.
    """

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    repetition_penalty: float | None = None
    penalty_last_n: int | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    sequence: str | None = None


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """One model file, or all the parts of a split one.

    Attributes:
        path: the file that llama.cpp is given; the first part where it is split.
        parts: every file of the model, `path` first.
        size_bytes: of all parts.
        kind: `general.type`, normally "model"; "adapter" and "mmproj" files cannot be chatted with.
        architecture: llama.cpp's name, such as "llama" or "gemma3".
        quantization: such as "Q4_K_M"; "unknown (N)" for a file type this version doesn't know.
        n_ctx_train: tokens of context the model was trained for.
        n_layer: layers without the NextN blocks.
        n_params: elements of all tensors.
        sliding_window: tokens the windowed layers see, or None.
        nextn_predict_layers: multi-token-prediction blocks that the metadata promises.
        has_nextn_tensors: whether their tensors are in the file, too.
        token_ids: bos, eos, eot, eom, unk, pad ids by that name, only those inside the vocabulary.
        add_bos: whether the tokenizer puts BOS first; None where the file leaves it to llama.cpp's default.
        named_templates: further chat templates by name, such as "tool_use".
        is_embedding: encodes instead of generating.
        is_recurrent, is_hybrid: memory that cannot simply be cut back after a rejected draft.
        is_diffusion: generates, but not token after token.
        matrix_types: types of the matrices that activations are multiplied with.
    """

    path: Path
    parts: tuple[Path, ...]
    size_bytes: int
    kind: str
    architecture: str
    name: str
    quantization: str
    n_ctx_train: int
    n_vocab: int
    n_layer: int
    n_params: int
    n_tensors: int
    sliding_window: int | None
    nextn_predict_layers: int
    has_nextn_tensors: bool
    tokenizer_model: str
    tokenizer_pre: str
    token_ids: Mapping[str, int]
    add_bos: bool | None
    chat_template: str | None
    is_embedding: bool
    is_recurrent: bool
    is_hybrid: bool
    is_diffusion: bool
    named_templates: Mapping[str, str] = field(default_factory=dict)
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    matrix_types: frozenset[str] = frozenset()

    @property
    def bos_id(self) -> int | None:
        """The begin-of-sequence token, where the file names one."""
        return self.token_ids.get("bos")

    @property
    def eos_id(self) -> int | None:
        """The end-of-sequence token, where the file names one."""
        return self.token_ids.get("eos")


def read_gguf(path: Path | str) -> GgufInfo:
    """What the GGUF at `path` says about itself, read from its header in milliseconds.

    Of a split model, `path` is the first part; the others are found beside it and read, too.

    Raises:
        ModelNotFoundError: there is no such file.
        ModelLoadError: the file is damaged, truncated, no GGUF, or of a version or type this version doesn't know.
    """
    path = Path(path)
    first = read_header(path)
    return _info(_Metadata(first), [first, *_other_parts(first)])


def split_number(path: Path) -> tuple[int, int] | None:
    """(number, count) of a file named like a part of a split model, NAME-00002-of-00005.gguf; else None."""
    match = _SPLIT_NAME.match(path.name)
    return (int(match["number"]), int(match["count"])) if match else None


class _Metadata:
    """Typed access to a header's values; a wrong type is an error that names the key."""

    def __init__(self, header: Header) -> None:
        self.path, self.values = header.path, header.values
        self.architecture = self.text("general.architecture")
        if not self.architecture:
            raise load_error(self.path, "does not say its architecture (general.architecture)")

    def of_architecture(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if isinstance(value, str):
            return value
        raise self._wrong_type(key, "a text", value)

    def flag(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self._wrong_type(key, "true or false", value)

    def integer(self, key: str) -> int | None:
        value = self.values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self._wrong_type(key, "a whole number", value)

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise self._wrong_type(key, "a number", value)

    def count(self, key: str, *, required: bool = False) -> int:
        """A size, 0 where it is absent and not required."""
        value = self.integer(key)
        if value is None and required:
            raise load_error(self.path, f"has no {key}")
        if value is not None and not 0 <= value <= _INT32_MAX:
            raise load_error(self.path, f"has the impossible {key} {value}: it is damaged")
        return value or 0

    def length(self, key: str) -> int:
        """The number of elements of an array, 0 where it is absent."""
        value = self.values.get(key, ())
        if isinstance(value, Skipped):
            return value.length
        if isinstance(value, tuple):
            return len(value)
        raise self._wrong_type(key, "an array", value)

    def _wrong_type(self, key: str, what: str, value: Value) -> ModelLoadError:
        return load_error(self.path, f"has {str(value)[:40]!r} as {key}, which should be {what}: it is damaged")


def _info(meta: _Metadata, headers: list[Header]) -> GgufInfo:
    """`meta` is the first part's; tensors come from all parts."""
    arch = meta.architecture
    kind = meta.text("general.type") or "model"
    is_model = kind == "model"
    nextn = meta.count(meta.of_architecture("nextn_predict_layers"))
    n_blocks = meta.count(meta.of_architecture("block_count"), required=is_model)
    if nextn > n_blocks:
        raise load_error(meta.path, f"claims {nextn} NextN layers of {n_blocks} layers: it is damaged")
    n_vocab = meta.length("tokenizer.ggml.tokens") or meta.count(meta.of_architecture("vocab_size"))
    tensors = [tensor for header in headers for tensor in header.tensors]
    return GgufInfo(
        path=meta.path,
        parts=tuple(header.path for header in headers),
        size_bytes=sum(header.size_bytes for header in headers),
        kind=kind,
        architecture=arch,
        name=meta.text("general.name"),
        quantization=_quantization(meta, headers),
        n_ctx_train=meta.count(meta.of_architecture("context_length"), required=is_model),
        n_vocab=n_vocab,
        n_layer=n_blocks - nextn,
        n_params=sum(tensor.n_elements for tensor in tensors),
        n_tensors=len(tensors),
        sliding_window=meta.count(meta.of_architecture("attention.sliding_window")) or None,
        nextn_predict_layers=nextn,
        has_nextn_tensors=any(".nextn." in tensor.name for tensor in tensors),
        tokenizer_model=meta.text("tokenizer.ggml.model"),
        tokenizer_pre=meta.text("tokenizer.ggml.pre"),
        token_ids=_token_ids(meta, n_vocab),
        add_bos=meta.flag("tokenizer.ggml.add_bos_token"),
        chat_template=meta.text("tokenizer.chat_template") or None,
        is_embedding=_is_embedding(meta),
        is_recurrent=arch in RECURRENT,
        is_hybrid=arch in HYBRID,
        is_diffusion=arch in DIFFUSION,
        named_templates=_named_templates(meta),
        sampling=_sampling(meta),
        matrix_types=frozenset(tensor.type.name for tensor in tensors if _is_matrix(tensor)),
    )


def _is_matrix(tensor: Tensor) -> bool:
    return len(tensor.shape) > 1 and not _NO_MATRIX.search(tensor.name)


def _other_parts(first: Header) -> list[Header]:
    """The headers of a split model's other parts."""
    path = first.path
    count, number = first.values.get("split.count", 0), first.values.get("split.no", 0)
    if not isinstance(count, int) or count <= 1:
        return []
    match = _SPLIT_NAME.match(path.name)
    if match is None or int(match["count"]) != count or not 0 < count <= 99_999:
        hint = f"Give the files back their names, ending in -00001-of-{count:05d}.gguf and so on."
        raise load_error(path, f"is part of a model split into {count} files, but its name does not say so", hint)
    siblings = [path.with_name(f"{match['prefix']}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]
    if number != 0 or int(match["number"]) != 1:
        raise load_error(
            path, f"is part {match['number']} of a split model", f"Name its first part, {siblings[0].name}."
        )
    headers = []
    for sibling in siblings[1:]:
        if not sibling.is_file():
            raise load_error(
                path, f"is split into {count} files and {sibling.name} is missing", f"Put it beside {path.name}."
            )
        headers.append(read_header(sibling))
    return headers


def _quantization(meta: _Metadata, headers: list[Header]) -> str:
    """The file type's name; where the file has none, the tensor type that most elements have (as llama.cpp guesses)."""
    file_type = meta.integer("general.file_type")
    if file_type is not None:
        return FILE_TYPES.get(file_type & ~FILE_TYPE_GUESSED, f"unknown ({file_type})")
    elements: Counter[str] = Counter()
    for header in headers:
        for tensor in header.tensors:
            elements[tensor.type.name] += tensor.n_elements
    return elements.most_common(1)[0][0] if elements else "unknown"


def _token_ids(meta: _Metadata, n_vocab: int) -> dict[str, int]:
    """Ids outside the vocabulary are dropped, as llama.cpp does; some converters write 2^32 - 1 for none."""
    keys = {
        "bos": "bos_token_id",
        "eos": "eos_token_id",
        "eot": "eot_token_id",
        "eom": "eom_token_id",
        "unk": "unknown_token_id",
        "pad": "padding_token_id",
    }
    ids = {name: meta.integer(f"tokenizer.ggml.{key}") for name, key in keys.items()}
    return {name: i for name, i in ids.items() if i is not None and 0 <= i < n_vocab}


def _is_embedding(meta: _Metadata) -> bool:
    """An encoder by name, by pooling (1 mean, 2 cls, 3 last, 4 rank), or by attention that looks ahead."""
    if meta.architecture in ENCODERS or meta.count(meta.of_architecture("pooling_type")) > 0:
        return True
    looks_ahead = meta.flag(meta.of_architecture("attention.causal")) is False
    return looks_ahead and meta.architecture not in DIFFUSION


def _named_templates(meta: _Metadata) -> dict[str, str]:
    prefix = "tokenizer.chat_template."
    return {key.removeprefix(prefix): meta.text(key) for key in meta.values if key.startswith(prefix)}


def _sampling(meta: _Metadata) -> SamplingDefaults:
    def number(key: str, low: float, high: float) -> float | None:
        value = meta.number(f"general.sampling.{key}")
        return value if value is not None and math.isfinite(value) and low <= value <= high else None

    def whole(key: str, low: int) -> int | None:
        value = meta.integer(f"general.sampling.{key}")
        return value if value is not None and low <= value <= _INT32_MAX else None

    return SamplingDefaults(
        temperature=number("temp", 0.0, 100.0),
        top_k=whole("top_k", 0),
        top_p=number("top_p", 0.0, 1.0),
        min_p=number("min_p", 0.0, 1.0),
        xtc_probability=number("xtc_probability", 0.0, 1.0),
        xtc_threshold=number("xtc_threshold", 0.0, 1.0),
        repetition_penalty=number("penalty_repeat", 0.01, 10.0),
        penalty_last_n=whole("penalty_last_n", -1),
        mirostat=whole("mirostat", 0),
        mirostat_tau=number("mirostat_tau", 0.0, math.inf),
        mirostat_eta=number("mirostat_eta", 0.0, math.inf),
        sequence=meta.text("general.sampling.sequence") or None,
    )
