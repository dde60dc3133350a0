"""Numbers and names that llama.cpp fixes for GGUF files: file types, tensor types, kinds of architecture.

Tables only; the source of all of them is llama.cpp 0.5.0: include/llama.h, ggml/include/ggml.h,
ggml/src/ggml-common.h, src/llama-arch.cpp.
"""

from __future__ import annotations

from typing import Final, NamedTuple

# enum llama_ftype, the values of `general.file_type`.
FILE_TYPES: Final[dict[int, str]] = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4",
    39: "NVFP4",
    40: "Q1_0",
    41: "Q2_0",
}

# Added to a file type that llama.cpp guessed rather than read.
FILE_TYPE_GUESSED: Final = 1024


class TensorType(NamedTuple):
    """One ggml type: `block` elements take `size` bytes."""

    name: str
    block: int
    size: int


# enum ggml_type with the block sizes of ggml-common.h.
TENSOR_TYPES: Final[dict[int, TensorType]] = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    9: TensorType("Q8_1", 32, 36),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    15: TensorType("Q8_K", 256, 292),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
    42: TensorType("Q2_0", 64, 18),
}

# llm_arch_is_recurrent: the whole memory is a recurrent state.
RECURRENT: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})

# llm_arch_is_hybrid: recurrent layers beside attention layers.
HYBRID: Final = frozenset(
    {
        "jamba",
        "falcon-h1",
        "plamo2",
        "granitehybrid",
        "lfm2",
        "lfm2moe",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen3next",
        "kimi-linear",
        "bailingmoe3",
        "kimi-k3",
        "glm5-next",
        "qwen35",
        "qwen35moe",
        "qwen4exp",
        "deepseek4",
        "minimax-01",
    }
)

# Architectures that only encode; they have no language-model head to generate with.
ENCODERS: Final = frozenset(
    {
        "bert",
        "modern-bert",
        "nomic-bert",
        "nomic-bert-moe",
        "neo-bert",
        "jina-bert-v2",
        "jina-bert-v3",
        "eurobert",
        "gemma-embedding",
        "llama-embed",
        "t5encoder",
    }
)

# llm_arch_is_diffusion: attention is not causal although they generate text.
DIFFUSION: Final = frozenset({"dream", "llada", "llada-moe", "rnd1"})

# First bytes of files that are often taken for a GGUF, and what they are.
FOREIGN_MAGICS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself; run `git lfs pull`"),
    (b"<", "a web page or XML, not a model; the download probably failed"),
    (b"{", "JSON text"),
    (b"PK\x03\x04", "a zip archive (perhaps PyTorch weights), which must be converted to GGUF"),
    (b"lmgg", "a GGML file from before GGUF, which llama.cpp no longer reads"),
    (b"fmgg", "a GGMF file from before GGUF, which llama.cpp no longer reads"),
    (b"tjgg", "a GGJT file from before GGUF, which llama.cpp no longer reads"),
    (b"GDPC", "a Godot .pck package; put the model beside the executable as its own file"),
)
