"""Tiny GGUF models (a few hundred KB) with random but shaped weights, one per kind of memory. No tests in here.

Shaped means: the output matrix maps most tokens onto a successor on one readable cycle, and each layer adds noise to
the residual stream. So a model recites the cycle with slips that depend on the context: drafts are sometimes right, and
a wrong memory changes the text. Same arguments, same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from gguf.quants import quantize

Tensors = dict[str, npt.NDArray[np.float32]]

Q8_0_BLOCK = 32

# --- vocabulary: 3 control tokens, the 256 bytes, and the prefixes of a few words ----------------------------------

START, END = "<|start|>", "<|end|>"
_CONTROL_TOKENS = ("<|unknown|>", START, END)
UNKNOWN_ID, START_ID, END_ID = 0, 1, 2

_WORDS = (
    *(
        "the",
        "miller",
        "lost",
        "her",
        "key",
        "under",
        "stone",
        "near",
        "old",
        "bridge",
        "and",
        "found",
        "river",
        "again",
    ),
    *("again", "name", "age", "class", "level", "items", "true", "false", "null", "mage", "thief", "warrior", "gold"),
)

TEMPLATE = (
    "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class Vocabulary:
    """A byte-level BPE vocabulary. `cycle`: ids of whole words, which a model recites in this order."""

    tokens: tuple[str, ...]
    merges: tuple[str, ...]
    cycle: tuple[int, ...]


def vocabulary() -> Vocabulary:
    """The vocabulary of all tiny models: 3 control tokens, every byte, every beginning of " word" and "word"."""
    letters = _byte_letters()
    tokens = [*_CONTROL_TOKENS, *letters]
    merges: list[str] = []
    for word in [*(f"\u0120{word}" for word in _WORDS), *_WORDS]:
        for i in range(1, len(word)):
            if word[: i + 1] not in tokens:
                merges.append(f"{word[:i]} {word[i]}")
                tokens.append(word[: i + 1])
    cycle = tuple(tokens.index(f"\u0120{word}") for word in _WORDS)
    return Vocabulary(tuple(tokens), tuple(merges), cycle)


def _byte_letters() -> list[str]:
    """Byte-level BPE's letter for each byte: printable Latin-1 stands for itself, the others for U+0100 upwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) if byte in printable else chr(0x100 + others.index(byte)) for byte in range(256)]


# --- sizes and tensors --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """Sizes of a tiny model.

    Attributes:
        noise: what each layer adds to the residual stream; 0 recites the cycle, 1 forgets it.
        end_every: the end token's logit is raised after every so-many-th word of the cycle; 0 for never.
        window: of sliding-window layers, in tokens.
        quantised: matrices in Q8_0, whose rows the CPU's kernels compute alike alone and in a batch; else in F32.
        head: a NextN head for qwen35, which knows the cycle ("aligned") or nothing ("random"), or is only claimed
            ("missing"); "" for none.
    """

    n_embd: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 16
    n_ff: int = 96
    n_ctx: int = 1024
    noise: float = 0.8
    end_every: int = 0
    window: int = 32
    quantised: bool = False
    head: str = ""


class _Build:
    """One model being written: metadata go to `writer`, tensors are collected in numpy's order of axes (out, in)."""

    def __init__(self, architecture: str, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.vocabulary = vocabulary()
        self.random = np.random.default_rng(seed)
        self.tensors: Tensors = {}
        self.writer = GGUFWriter(None, architecture)

    def put(self, name: str, values: npt.ArrayLike) -> None:
        self.tensors[name] = np.ascontiguousarray(values, np.float32)

    def full(self, name: str, *sizes: int, value: float = 1.0) -> None:
        self.put(name, np.full(sizes, value))

    def random_matrix(self, name: str, n_out: int, n_in: int, gain: float = 1.0) -> None:
        """Keeps the variance of a unit input times `gain` squared."""
        self.put(name, self.random.standard_normal((n_out, n_in)) * gain / math.sqrt(n_in))

    def save(self, path: Path) -> Path:
        for name, values in self.tensors.items():
            if self.shape.quantised and _is_quantised(name, values):
                kind = GGMLQuantizationType.Q8_0
                self.writer.add_tensor(name, quantize(values, kind), raw_dtype=kind)
            else:
                self.writer.add_tensor(name, values)
        self.writer.write_header_to_file(path)
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return path


def _is_quantised(name: str, values: npt.NDArray[np.float32]) -> bool:
    """As llama.cpp's own tool has it: matrices, but for a router's; convolutions and norms are none."""
    others = ("norm", "conv1d", "shortconv.conv", "ffn_gate_inp")
    return (
        name.endswith(".weight")
        and values.ndim > 1
        and values.shape[-1] % Q8_0_BLOCK == 0
        and not any(other in name for other in others)
    )


def _metadata(
    build: _Build, *, heads: bool = True, heads_kv: int | list[int] | None = None, n_ff: list[int] | None = None
) -> None:
    shape, writer, words = build.shape, build.writer, build.vocabulary
    writer.add_name("tiny")
    writer.add_context_length(shape.n_ctx)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer + bool(shape.head))
    if shape.head:
        writer.add_nextn_predict_layers(1)
    writer.add_feed_forward_length(n_ff if n_ff is not None else shape.n_ff if heads else 0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(LlamaFileType.MOSTLY_Q8_0 if shape.quantised else LlamaFileType.ALL_F32)
    writer.add_head_count(shape.n_head if heads else 0)
    if heads:
        writer.add_head_count_kv(shape.n_head_kv if heads_kv is None else heads_kv)
        writer.add_key_length(shape.head_dim)
        writer.add_value_length(shape.head_dim)
        writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(list(words.tokens))
    writer.add_token_types([3] * len(_CONTROL_TOKENS) + [1] * (len(words.tokens) - len(_CONTROL_TOKENS)))
    writer.add_token_merges(list(words.merges))
    writer.add_bos_token_id(START_ID)
    writer.add_eos_token_id(END_ID)
    writer.add_unk_token_id(UNKNOWN_ID)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _embeddings(build: _Build, *, scale: float = 1.0, norm: str = "output_norm") -> None:
    """Embedding, output norm and output matrix, whose rows send each word to its successor on the cycle."""
    shape, cycle = build.shape, np.array(build.vocabulary.cycle)
    n_vocab = len(build.vocabulary.tokens)
    embedding = build.random.standard_normal((n_vocab, shape.n_embd))
    # Every other token resembles some word, so that any prompt leads onto the cycle.
    others = np.setdiff1d(np.arange(n_vocab), cycle)
    nearby = build.random.choice(cycle, len(others))
    embedding[others] = embedding[nearby] + 0.3 * embedding[others]
    output = 0.3 * build.random.standard_normal((n_vocab, shape.n_embd))
    output[np.roll(cycle, -1)] = embedding[cycle]
    if shape.end_every:
        output[END_ID] = embedding[cycle[:: shape.end_every]].sum(axis=0) * 1.2
    build.put("token_embd.weight", embedding * scale)
    build.put("output.weight", output / math.sqrt(shape.n_embd))
    build.full(f"{norm}.weight", shape.n_embd)


# --- layers -------------------------------------------------------------------------------------------------------


def _attention(build: _Build, layer: str, gain: float, *, norms: bool, gated: bool = False) -> None:
    shape = build.shape
    n_query, n_kv = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    build.random_matrix(f"{layer}.attn_q.weight", n_query * (2 if gated else 1), shape.n_embd)
    build.random_matrix(f"{layer}.attn_k.weight", n_kv, shape.n_embd)
    build.random_matrix(f"{layer}.attn_v.weight", n_kv, shape.n_embd)
    # The softmax averages values away, a gate halves them: make up for it.
    build.random_matrix(f"{layer}.attn_output.weight", shape.n_embd, n_query, gain * (4 if gated else 2))
    if norms:
        build.full(f"{layer}.attn_q_norm.weight", shape.head_dim, value=2.0)
        build.full(f"{layer}.attn_k_norm.weight", shape.head_dim)


def _feed_forward(build: _Build, layer: str, gain: float) -> None:
    shape = build.shape
    build.random_matrix(f"{layer}.ffn_gate.weight", shape.n_ff, shape.n_embd)
    build.random_matrix(f"{layer}.ffn_up.weight", shape.n_ff, shape.n_embd)
    build.random_matrix(f"{layer}.ffn_down.weight", shape.n_embd, shape.n_ff, gain * 2)


def _delta_net(build: _Build, layer: str, gain: float, *, d_state: int, n_key: int, n_value: int, n_conv: int) -> None:
    """Gated delta net: the recurrent layer of qwen35."""
    n_embd, key, value = build.shape.n_embd, d_state * n_key, d_state * n_value
    build.random_matrix(f"{layer}.attn_qkv.weight", 2 * key + value, n_embd)
    build.random_matrix(f"{layer}.attn_gate.weight", value, n_embd)
    build.random_matrix(f"{layer}.ssm_conv1d.weight", 2 * key + value, n_conv)
    build.random_matrix(f"{layer}.ssm_beta.weight", n_value, n_embd)
    build.random_matrix(f"{layer}.ssm_alpha.weight", n_value, n_embd)
    build.random_matrix(f"{layer}.ssm_out.weight", n_embd, value, gain * 2)
    build.full(f"{layer}.ssm_dt.bias", n_value, value=-2.0)
    build.put(f"{layer}.ssm_a", -build.random.uniform(0.2, 2.0, n_value))
    build.full(f"{layer}.ssm_norm.weight", d_state)


# --- architectures ------------------------------------------------------------------------------------------------


def _llama(build: _Build) -> None:
    _metadata(build)
    build.writer.add_rope_dimension_count(build.shape.head_dim)
    _embeddings(build)
    for i in range(build.shape.n_layer):
        layer = f"blk.{i}"
        build.full(f"{layer}.attn_norm.weight", build.shape.n_embd)
        _attention(build, layer, build.shape.noise, norms=False)
        build.full(f"{layer}.ffn_norm.weight", build.shape.n_embd)
        _feed_forward(build, layer, build.shape.noise)


def _gemma3(build: _Build) -> None:
    """Sliding window attention in every second layer."""
    shape = build.shape
    _metadata(build)
    build.writer.add_sliding_window(shape.window)
    build.writer.add_sliding_window_pattern(2)
    _embeddings(build, scale=1 / math.sqrt(shape.n_embd))  # this architecture multiplies embeddings by the root
    for i in range(shape.n_layer):
        layer = f"blk.{i}"
        for name in ("attn_norm", "ffn_norm"):
            build.full(f"{layer}.{name}.weight", shape.n_embd)
        for name in ("post_attention_norm", "post_ffw_norm"):
            build.full(f"{layer}.{name}.weight", shape.n_embd, value=shape.noise)
        _attention(build, layer, 1.0, norms=True)
        _feed_forward(build, layer, 1.0)


def _mamba(build: _Build) -> None:
    """Recurrent layers only."""
    shape = build.shape
    d_inner, d_state, n_rank, n_conv = 2 * shape.n_embd, 16, 4, 4
    _metadata(build, heads=False)
    build.writer.add_ssm_conv_kernel(n_conv)
    build.writer.add_ssm_inner_size(d_inner)
    build.writer.add_ssm_state_size(d_state)
    build.writer.add_ssm_time_step_rank(n_rank)
    _embeddings(build)
    for i in range(shape.n_layer):
        layer = f"blk.{i}"
        build.full(f"{layer}.attn_norm.weight", shape.n_embd)
        build.random_matrix(f"{layer}.ssm_in.weight", 2 * d_inner, shape.n_embd)
        build.random_matrix(f"{layer}.ssm_conv1d.weight", d_inner, n_conv)
        build.full(f"{layer}.ssm_conv1d.bias", d_inner, value=0.0)
        build.random_matrix(f"{layer}.ssm_x.weight", n_rank + 2 * d_state, d_inner)
        build.random_matrix(f"{layer}.ssm_dt.weight", d_inner, n_rank)
        build.full(f"{layer}.ssm_dt.bias", d_inner, value=-1.5)
        build.put(f"{layer}.ssm_a", -np.tile(np.arange(1, d_state + 1) * 0.3, (d_inner, 1)))
        build.full(f"{layer}.ssm_d", d_inner)
        build.random_matrix(f"{layer}.ssm_out.weight", shape.n_embd, d_inner, shape.noise * 3)


def _lfm2(build: _Build) -> None:
    """Short convolutions and attention in turn."""
    shape, n_conv = build.shape, 3
    is_attention = [i % 2 == 1 for i in range(shape.n_layer)]
    _metadata(build, heads_kv=[shape.n_head_kv if attention else 0 for attention in is_attention])
    build.writer.add_shortconv_l_cache(n_conv)
    _embeddings(build, norm="token_embd_norm")
    for i, attention in enumerate(is_attention):
        layer = f"blk.{i}"
        build.full(f"{layer}.attn_norm.weight", shape.n_embd)
        if attention:
            _attention(build, layer, shape.noise, norms=True)
        else:
            build.random_matrix(f"{layer}.shortconv.conv.weight", shape.n_embd, n_conv)
            build.random_matrix(f"{layer}.shortconv.in_proj.weight", 3 * shape.n_embd, shape.n_embd)
            build.random_matrix(f"{layer}.shortconv.out_proj.weight", shape.n_embd, shape.n_embd, shape.noise)
        build.full(f"{layer}.ffn_norm.weight", shape.n_embd)
        _feed_forward(build, layer, shape.noise)


def _nemotron_h(build: _Build) -> None:
    """One kind of mixer per layer: Mamba 2, attention, Mamba 2, feed-forward."""
    shape = build.shape
    d_inner, d_state, n_head, n_group, n_conv = 2 * shape.n_embd, 16, 4, 1, 4
    kinds = [("mamba", "attention", "mamba", "feed-forward")[i % 4] for i in range(shape.n_layer)]
    _metadata(
        build,
        heads_kv=[shape.n_head_kv if kind == "attention" else 0 for kind in kinds],
        n_ff=[shape.n_ff if kind == "feed-forward" else 0 for kind in kinds],
    )
    build.writer.add_layer_norm_eps(1e-6)
    build.writer.add_ssm_conv_kernel(n_conv)
    build.writer.add_ssm_inner_size(d_inner)
    build.writer.add_ssm_state_size(d_state)
    build.writer.add_ssm_time_step_rank(n_head)
    build.writer.add_ssm_group_count(n_group)
    _embeddings(build)
    for i, kind in enumerate(kinds):
        layer = f"blk.{i}"
        build.full(f"{layer}.attn_norm.weight", shape.n_embd)
        if kind == "attention":
            _attention(build, layer, shape.noise, norms=False)
        elif kind == "feed-forward":
            build.random_matrix(f"{layer}.ffn_up.weight", shape.n_ff, shape.n_embd)
            build.random_matrix(f"{layer}.ffn_down.weight", shape.n_embd, shape.n_ff, shape.noise * 2)
        else:
            n_convolved = d_inner + 2 * n_group * d_state
            build.random_matrix(f"{layer}.ssm_in.weight", d_inner + n_convolved + n_head, shape.n_embd)
            build.random_matrix(f"{layer}.ssm_conv1d.weight", n_convolved, n_conv)
            build.full(f"{layer}.ssm_conv1d.bias", n_convolved, value=0.0)
            build.full(f"{layer}.ssm_dt.bias", n_head, value=-1.5)
            build.put(f"{layer}.ssm_a", -build.random.uniform(0.2, 2.0, (n_head, 1)))
            build.full(f"{layer}.ssm_d", n_head, 1)
            build.full(f"{layer}.ssm_norm.weight", n_group, d_inner // n_group)
            build.random_matrix(f"{layer}.ssm_out.weight", shape.n_embd, d_inner, shape.noise * 2)


def _qwen35(build: _Build) -> None:
    """Gated delta nets and gated attention in turn; llama.cpp can take drafted tokens back from its recurrent state."""
    _metadata(build)
    _qwen35_layers(build, _feed_forward)


def _qwen35moe(build: _Build) -> None:
    """The same with two of four experts, and one that always takes part, in place of the feed-forward layer."""
    n_expert, n_used, n_ff = 4, 2, 32
    _metadata(build)
    build.writer.add_expert_count(n_expert)
    build.writer.add_expert_used_count(n_used)
    build.writer.add_expert_feed_forward_length(n_ff)
    build.writer.add_expert_shared_feed_forward_length(n_ff)

    def experts(build: _Build, layer: str, gain: float) -> None:
        n_embd = build.shape.n_embd
        build.random_matrix(f"{layer}.ffn_gate_inp.weight", n_expert, n_embd)
        build.put(f"{layer}.ffn_gate_inp_shexp.weight", build.random.standard_normal(n_embd) / math.sqrt(n_embd))
        for name, n_out, n_in, scale in (
            ("gate", n_ff, n_embd, 1.0),
            ("up", n_ff, n_embd, 1.0),
            ("down", n_embd, n_ff, gain * 2),
        ):
            stack = build.random.standard_normal((n_expert, n_out, n_in)) * scale / math.sqrt(n_in)
            build.put(f"{layer}.ffn_{name}_exps.weight", stack)
            build.random_matrix(f"{layer}.ffn_{name}_shexp.weight", n_out, n_in, scale)

    _qwen35_layers(build, experts)


def _qwen35_layers(build: _Build, feed_forward: Callable[[_Build, str, float], None]) -> None:
    shape = build.shape
    d_state, n_key, n_value, n_conv, attention_every = 16, 2, 4, 4, 2
    build.writer.add_rope_dimension_count(shape.head_dim // 2)
    build.writer.add_rope_dimension_sections([2, 1, 1, 0])
    build.writer.add_full_attention_interval(attention_every)
    build.writer.add_ssm_conv_kernel(n_conv)
    build.writer.add_ssm_inner_size(d_state * n_value)
    build.writer.add_ssm_state_size(d_state)
    build.writer.add_ssm_time_step_rank(n_value)
    build.writer.add_ssm_group_count(n_key)
    _embeddings(build)
    for i in range(shape.n_layer):
        layer = f"blk.{i}"
        build.full(f"{layer}.attn_norm.weight", shape.n_embd)
        if (i + 1) % attention_every:
            _delta_net(build, layer, shape.noise, d_state=d_state, n_key=n_key, n_value=n_value, n_conv=n_conv)
        else:
            _attention(build, layer, shape.noise, norms=True, gated=True)
        build.full(f"{layer}.post_attention_norm.weight", shape.n_embd)
        feed_forward(build, layer, shape.noise)
    if shape.head in ("aligned", "random"):
        _nextn_head(build, f"blk.{shape.n_layer}", feed_forward)


def _nextn_head(build: _Build, layer: str, feed_forward: Callable[[_Build, str, float], None]) -> None:
    """A block that takes the token's embedding beside the hidden state before it; aligned, it ignores the latter."""
    n_embd, aligned = build.shape.n_embd, build.shape.head == "aligned"
    build.random_matrix(f"{layer}.nextn.eh_proj.weight", n_embd, 2 * n_embd)
    if aligned:
        build.put(f"{layer}.nextn.eh_proj.weight", np.eye(n_embd, 2 * n_embd))
    for name in ("nextn.enorm", "nextn.hnorm", "nextn.shared_head_norm", "attn_norm", "post_attention_norm"):
        build.full(f"{layer}.{name}.weight", n_embd)
    gain = 0.1 if aligned else 1.0
    _attention(build, layer, gain, norms=True, gated=True)
    feed_forward(build, layer, gain)


ARCHITECTURES: dict[str, Callable[[_Build], None]] = {
    "llama": _llama,
    "gemma3": _gemma3,
    "mamba": _mamba,
    "lfm2": _lfm2,
    "nemotron_h": _nemotron_h,
    "qwen35": _qwen35,
    "qwen35moe": _qwen35moe,
}


def write_tiny(architecture: str, path: Path, *, seed: int = 0, **sizes: Any) -> Path:
    """Write a tiny model of `architecture` (a key of ARCHITECTURES) to `path` and return it.

    Args:
        seed: of the weights.
        sizes: fields of Shape.
    """
    build = _Build(architecture, Shape(**sizes), seed)
    ARCHITECTURES[architecture](build)
    return build.save(path)
