"""A BERT in NumPy, from its definition (Devlin et al., 2019): what the runtime's vectors are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from support.tiny_encoder import N_EMBD, N_HEAD, N_LAYER, weights

Array = npt.NDArray[np.float64]


def embedding(tokens: Sequence[int], *, seed: int = 0, first_only: bool = False) -> Array:
    """The unit vector of a text: the mean over its tokens, or the first one's hidden state."""
    tensors = weights(seed)

    def linear(x: Array, name: str) -> Array:
        result: Array = x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]
        return result

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(axis=1, keepdims=True) + 1e-12)
        result: Array = scaled * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]
        return result

    def heads(x: Array) -> Array:
        return x.reshape(len(tokens), N_HEAD, N_EMBD // N_HEAD).transpose(1, 0, 2)

    x = tensors["token_embd.weight"][list(tokens)] + tensors["position_embd.weight"][: len(tokens)]
    x = norm(x + tensors["token_types.weight"][0], "token_embd_norm")
    for i in range(N_LAYER):
        layer = f"blk.{i}"
        q, k, v = (heads(linear(x, f"{layer}.attn_{name}")) for name in "qkv")
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(N_EMBD // N_HEAD))
        mixed = (scores / scores.sum(axis=2, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(tokens), N_EMBD)
        x = norm(x + linear(mixed, f"{layer}.attn_output"), f"{layer}.attn_output_norm")
        up = linear(x, f"{layer}.ffn_up")
        gelu = up * (1 + np.vectorize(math.erf)(up / math.sqrt(2))) / 2
        x = norm(x + linear(gelu, f"{layer}.ffn_down"), f"{layer}.layer_output_norm")
    pooled = x[0] if first_only else x.mean(axis=0)
    unit: Array = pooled / np.linalg.norm(pooled)
    return unit
