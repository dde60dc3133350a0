"""The vocabulary of one model as the grammar engine needs it. Holds no grammar and touches no model file."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
from llguidance import LLTokenizer, TokenizerWrapper

_DIGITS = b"0123456789"
_NEXT_VALUE = re.compile(rb'["}\]]\s*,')

MaskRow = npt.NDArray[np.int32]
Tokenize = Callable[[bytes], list[int]]


class GrammarVocabulary:
    """Token bytes of a model, shared by all its grammars.

    The engine's token trie is built at the first use of `tokenizer`, because it costs 0.2 s for 49k tokens and 2 s for
    262k, which a model that never answers in JSON should not pay. Safe to use from several threads.
    """

    def __init__(
        self,
        pieces: Sequence[bytes],
        special_ids: Sequence[int],
        eos_ids: Sequence[int],
        bos_id: int | None,
        tokenize: Tokenize,
    ) -> None:
        if not eos_ids:
            raise ValueError("a vocabulary needs at least one end token")
        outside = [token for token in (*special_ids, *eos_ids) if not 0 <= token < len(pieces)]
        if outside:
            raise ValueError(f"token id {outside[0]} is outside the vocabulary of {len(pieces)} tokens")
        self.n_tokens = len(pieces)
        self.eos_ids = frozenset(eos_ids)
        self._first_eos = list(eos_ids)
        self._pieces = list(pieces)
        self._special_ids = sorted(set(special_ids) | self.eos_ids)
        self._special_by_text = {pieces[token]: token for token in self._special_ids}
        self._bos_id = bos_id
        self._tokenize = tokenize
        self._tokenizer: LLTokenizer | None = None
        self._lock = threading.Lock()
        self.eos_row = self._row_of(self._first_eos)

    @classmethod
    def build(
        cls,
        pieces: Sequence[bytes],
        special_ids: Sequence[int],
        eos_ids: Sequence[int],
        bos_id: int | None,
        tokenize: Tokenize,
    ) -> GrammarVocabulary:
        """The vocabulary in `pieces`.

        Args:
            pieces: the bytes of each token, exactly as many as a logits row is wide; b"" for ids that are padding.
                A control token's piece is its text, such as b"<|im_end|>".
            special_ids: control tokens. They never match text in a grammar.
            eos_ids: every token that ends an answer, the usual one first.
            bos_id: the token that begins a text, or None.
            tokenize: the model's own tokenisation of UTF-8 bytes, without special tokens. Forced text is spelled so.

        Raises:
            ValueError: no end token, or an id outside `pieces`.
        """
        return cls(pieces, special_ids, eos_ids, bos_id, tokenize)

    @property
    def n_words(self) -> int:
        """int32 words of a mask row: bit i (little-endian) is token i."""
        return len(self.eos_row)

    @property
    def tokenizer(self) -> LLTokenizer:
        """The engine's form of the vocabulary, built once."""
        with self._lock:
            if self._tokenizer is None:
                source = _TokenSource(self._pieces, self._special_ids, self._first_eos[0], self._bos_id, self._tokenize)
                # The engine reads the protocol's attributes, not the class that its stubs name.
                wrapper = cast(TokenizerWrapper, source)
                # Default slices: without them the slow masks are 5 to 10 times slower.
                self._tokenizer = LLTokenizer(wrapper, eos_token=self._first_eos)
            return self._tokenizer

    def special_id(self, text: str) -> int | None:
        """The id of the control token spelled `text`, or None when it is ordinary text for this model."""
        return self._special_by_text.get(text.encode())

    def piece(self, token: int) -> bytes:
        """The bytes of a token."""
        return self._pieces[token]

    def is_walkable(self, token: int) -> bool:
        """Whether a grammar can be walked over `token`: an id of the vocabulary, and no end token."""
        # An id beyond the vocabulary puts the engine in its error state; an end token confuses its rollback.
        return 0 <= token < self.n_tokens and token not in self.eos_ids

    def ordinary(self) -> Iterator[tuple[int, bytes]]:
        """Every token that is text, with its bytes."""
        special = set(self._special_ids)
        return ((token, piece) for token, piece in enumerate(self._pieces) if piece and token not in special)

    def spell(self, text: str) -> list[int]:
        """The tokens of `text`: a control token where there is one of this name."""
        token = self.special_id(text)
        return [token] if token is not None else self.tokenizer.tokenize_str(text)

    def ends_in_digits(self, token: int) -> tuple[int, bool]:
        """How many decimal digits `token` ends in, and whether it is nothing but digits."""
        piece = self._pieces[token]
        n_digits = len(piece) - len(piece.rstrip(_DIGITS))
        return n_digits, 0 < n_digits == len(piece)

    @cached_property
    def digit_row(self) -> MaskRow:
        """The tokens that begin with a decimal digit."""
        return self._row_of([token for token, piece in enumerate(self._pieces) if piece[:1].isdigit()])

    @cached_property
    def quote_row(self) -> MaskRow:
        """The tokens that begin with a double quote."""
        return self._row_of([token for token, piece in enumerate(self._pieces) if piece[:1] == b'"'])

    @cached_property
    def array_end_row(self) -> MaskRow:
        """The tokens that begin with the end of an array."""
        return self._row_of([token for token, piece in enumerate(self._pieces) if piece[:1] == b"]"])

    @cached_property
    def next_value_row(self) -> MaskRow:
        """The tokens that end a value and go on to the next one."""
        return self._row_of([token for token, piece in enumerate(self._pieces) if _NEXT_VALUE.search(piece)])

    @cached_property
    def opening_row(self) -> MaskRow:
        """The tokens with an opening bracket."""
        return self._row_of([token for token, piece in enumerate(self._pieces) if b"{" in piece or b"[" in piece])

    def _row_of(self, tokens: Sequence[int]) -> MaskRow:
        row: npt.NDArray[np.uint32] = np.zeros((self.n_tokens + 31) // 32, dtype=np.uint32)
        for token in tokens:
            row[token // 32] |= np.uint32(1 << (token % 32))
        row.flags.writeable = False
        return row.view(np.int32)


class _TokenSource:
    """llguidance's tokenizer protocol over the pieces of a model."""

    is_tokenizer_wrapper = True

    def __init__(
        self, pieces: list[bytes], special_ids: list[int], eos_id: int, bos_id: int | None, tokenize: Tokenize
    ) -> None:
        self.tokens = pieces
        self.special_token_ids = special_ids
        self.eos_token_id = eos_id
        self.bos_token_id = bos_id
        self._tokenize = tokenize
        self._ordinary: dict[bytes, int] | None = None

    def __call__(self, text: str | bytes) -> list[int]:
        """Tokens whose pieces joined are exactly `text`."""
        raw = text.encode() if isinstance(text, str) else text
        tokens = self._tokenize(raw)
        if b"".join(self.tokens[token] for token in tokens) == raw:
            return tokens
        # Vocabularies that put a space before every text: their tokenisation is not of `text`, and the engine would
        # force bytes that the grammar refuses.
        return self._longest_match(raw)

    def _longest_match(self, raw: bytes) -> list[int]:
        if self._ordinary is None:
            special = set(self.special_token_ids)
            self._ordinary = {piece: i for i, piece in enumerate(self.tokens) if piece and i not in special}
        longest = max(map(len, self._ordinary))
        tokens: list[int] = []
        at = 0
        while at < len(raw):
            for end in range(min(len(raw), at + longest), at, -1):
                token = self._ordinary.get(raw[at:end])
                if token is not None:
                    tokens.append(token)
                    at = end
                    break
            else:
                raise ValueError(f"no token spells byte 0x{raw[at]:02x}")
        return tokens
