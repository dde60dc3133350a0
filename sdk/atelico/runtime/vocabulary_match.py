"""Whether two models have the same vocabulary, so that one can draft for the other."""

from __future__ import annotations

import llama_cpp

from atelico.runtime.model import Model

# Padding at the end of a vocabulary differs between sizes of one family; the first ids are control tokens whose text
# may. Both numbers as llama.cpp's own speculative decoding has them.
MAX_SIZE_DIFFERENCE = 128
FIRST_COMPARED = 5


def mismatch(target: Model, drafter: Model) -> str | None:
    """Why tokens of `drafter` do not mean the same to `target`, or None."""
    a, b = (llama_cpp.llama_model_get_vocab(model.handle) for model in (target, drafter))
    if llama_cpp.llama_vocab_type(a) != llama_cpp.llama_vocab_type(b):
        return "their tokenizers are of different kinds"
    for name, adds, token in (
        ("begin-of-text", llama_cpp.llama_vocab_get_add_bos, llama_cpp.llama_vocab_bos),
        ("end-of-text", llama_cpp.llama_vocab_get_add_eos, llama_cpp.llama_vocab_eos),
    ):
        if adds(a) != adds(b) or (adds(a) and token(a) != token(b)):
            return f"their {name} tokens differ"
    n_target, n_drafter = target.vocabulary.n_tokens, drafter.vocabulary.n_tokens
    if abs(n_target - n_drafter) > MAX_SIZE_DIFFERENCE:
        return f"they have {n_target} and {n_drafter} tokens"
    for i in range(FIRST_COMPARED, min(n_target, n_drafter)):
        if llama_cpp.llama_vocab_get_text(a, i) != llama_cpp.llama_vocab_get_text(b, i):
            return f"token {i} is {target.vocabulary.text(i)!r} in one and {drafter.vocabulary.text(i)!r} in the other"
    return None
