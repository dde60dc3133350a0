"""A model's vocabulary: text to tokens and tokens to bytes. Needs its Model alive."""

from __future__ import annotations

import ctypes
import functools

import llama_cpp

_CONTROL, _USER_DEFINED, _UNUSED, _UNKNOWN = 1 << 3, 1 << 4, 1 << 1, 1 << 0  # enum llama_token_attr


class Vocabulary:
    """Tokenisation of one model.

    Attributes:
        n_tokens: vocabulary size; also the width of a logits row.
        eog: ids that end a generation (end of text, end of turn, ...).
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(handle)
        self.eog = frozenset(i for i in range(self.n_tokens) if llama_cpp.llama_vocab_is_eog(handle, i))
        self._pieces: dict[int, bytes] = {}

    @property
    def bos(self) -> int | None:
        """The begin-of-text token, if the model has one."""
        token: int = llama_cpp.llama_vocab_bos(self._handle)
        return token if token >= 0 else None

    @property
    def eos(self) -> int | None:
        """The end-of-text token, if the model has one."""
        token: int = llama_cpp.llama_vocab_eos(self._handle)
        return token if token >= 0 else None

    @property
    def adds_bos(self) -> bool:
        """Whether the model expects the begin-of-text token before every prompt."""
        return bool(llama_cpp.llama_vocab_get_add_bos(self._handle))

    def tokenize(self, text: str | bytes, *, special: bool = False, framed: bool = False) -> list[int]:
        """The tokens of `text`.

        Args:
            special: text such as "<|im_end|>" becomes the control token of that name.
            framed: with the control tokens that the model wants around a text, such as [CLS] and [SEP].
        """
        data = text.encode() if isinstance(text, str) else text
        capacity = len(data) + 8  # a token has at least one byte, but a leading space may be added
        while True:
            tokens = (llama_cpp.llama_token * capacity)()
            count = llama_cpp.llama_tokenize(self._handle, data, len(data), tokens, capacity, framed, special)
            if count >= 0:
                return list(tokens[:count])
            capacity = -count

    def piece(self, token: int) -> bytes:
        """The bytes `token` adds to the text; empty for control tokens. May be part of a UTF-8 character."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._read_piece(token, special=False)
        return known

    def text(self, token: int) -> str:
        """The text of `token` for people, control tokens by their name."""
        return self._read_piece(token, special=True).decode(errors="replace")

    def _read_piece(self, token: int, *, special: bool) -> bytes:
        capacity = 64
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            size = llama_cpp.llama_token_to_piece(self._handle, token, buffer, capacity, 0, special)
            if size >= 0:
                return buffer.raw[:size]
            capacity = -size

    @functools.cached_property
    def special(self) -> frozenset[int]:
        """Ids that must never be produced as text: control, unused and unknown tokens."""
        attributes = (llama_cpp.llama_vocab_get_attr(self._handle, i) for i in range(self.n_tokens))
        return frozenset(i for i, attribute in enumerate(attributes) if attribute & (_CONTROL | _UNUSED | _UNKNOWN))

    def pieces(self) -> list[bytes]:
        """The bytes of every token, special ones by their name. Takes up to a second on a large vocabulary."""
        return [self._read_piece(i, special=True) for i in range(self.n_tokens)]
