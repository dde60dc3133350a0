"""Tiny embedding models (F32, under a megabyte) with random weights: a BERT, and a causal model that pools. No tests.

Same arguments, same bytes.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, PoolingType

from support.tiny_models import ARCHITECTURES, Shape, Tensors, _Build

N_CTX, N_EMBD, N_LAYER, N_HEAD = 64, 48, 2, 4
_N_FF = 96

CLS, SEP = "[CLS]", "[SEP]"
_SPECIAL = ("[PAD]", "[UNK]", CLS, SEP, "[MASK]")
WORDS = (
    *("the", "old", "mill", "by", "river", "is", "has", "a", "key", "under", "third", "stone", "sword", "bread"),
    *("miller", "baker", "sells", "lost", "red", "dragon", "sleeps", "gold"),
)
# WordPiece as llama.cpp keeps it: U+2581 begins a word, other pieces go on with one.
_BEGIN = "▁"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = (*_SPECIAL, *(_BEGIN + word for word in WORDS), *(_BEGIN + x for x in _LETTERS if x != "a"), *_LETTERS)


def weights(seed: int = 0) -> Tensors:
    """The tensors of the BERT that `write_bert` writes, by name."""
    random = np.random.default_rng(seed)
    tensors: Tensors = {}

    def put(name: str, values: npt.ArrayLike) -> None:
        tensors[name] = np.ascontiguousarray(values, np.float32)

    def matrix(name: str, n_out: int, n_in: int) -> None:
        put(f"{name}.weight", random.standard_normal((n_out, n_in)) / math.sqrt(n_in))
        put(f"{name}.bias", random.standard_normal(n_out) * 0.1)

    def norm(name: str) -> None:
        put(f"{name}.weight", np.ones(N_EMBD))
        put(f"{name}.bias", random.standard_normal(N_EMBD) * 0.1)

    put("token_embd.weight", random.standard_normal((len(TOKENS), N_EMBD)))
    put("position_embd.weight", random.standard_normal((N_CTX, N_EMBD)) * 0.2)
    put("token_types.weight", random.standard_normal((2, N_EMBD)) * 0.1)
    norm("token_embd_norm")
    for i in range(N_LAYER):
        layer = f"blk.{i}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"{layer}.{name}", N_EMBD, N_EMBD)
        norm(f"{layer}.attn_output_norm")
        matrix(f"{layer}.ffn_up", _N_FF, N_EMBD)
        matrix(f"{layer}.ffn_down", N_EMBD, _N_FF)
        norm(f"{layer}.layer_output_norm")
    return tensors


def write_bert(path: Path, *, pooling: PoolingType | None = PoolingType.MEAN, seed: int = 0) -> Path:
    """Write a BERT of `N_CTX` positions and `N_EMBD` dimensions, which knows WORDS and spells others.

    Args:
        pooling: None leaves it out of the file.
        seed: of the weights.
    """
    writer = GGUFWriter(path, "bert")
    writer.add_name("tiny bert")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_block_count(N_LAYER)
    writer.add_feed_forward_length(_N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_file_type(0)
    if pooling is not None:
        writer.add_pooling_type(pooling)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(list(TOKENS))
    writer.add_token_types([3] * len(_SPECIAL) + [1] * (len(TOKENS) - len(_SPECIAL)))
    writer.add_token_type_count(2)
    writer.add_pad_token_id(0)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_eos_token_id(3)
    writer.add_mask_token_id(4)

    for name, values in weights(seed).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_causal(path: Path, *, seed: int = 0) -> Path:
    """Write a tiny Llama of 1,024 positions whose embedding is the hidden state of the last token."""
    build = _Build("llama", Shape(), seed)
    ARCHITECTURES["llama"](build)
    build.writer.add_pooling_type(PoolingType.LAST)
    return build.save(path)
