"""What a context's memory can forget: the one place that knows how each kind of memory is cut, copied and cleared.

Kinds: plain attention is cut anywhere. Sliding-window attention is cut wherever the cells that the window then needs
are still there. Recurrent memory (or a hybrid's recurrent part) keeps one state per sequence and, where llama.cpp
grants them, the states before its last few tokens. llama.cpp checks only part of what makes a cut of it right and
otherwise computes with a stale state, so every cut goes through here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import llama_cpp

from atelico.errors import InferenceError


class Memory:
    """The sequences of one context. Used by the context's thread only.

    Attributes:
        recurrent: whether a sequence cannot be cut at any position.
        n_rollback: the last tokens of a sequence that a cut can take back; all `n_cells` unless it is recurrent.
    """

    def __init__(self, context: int, *, recurrent: bool, n_window: int) -> None:
        """`context`: llama.cpp's pointer. `n_window`: tokens its sliding-window layers see; 0 where it has none."""
        self._handle = llama_cpp.llama_get_memory(context)
        self.recurrent = recurrent
        self._n_window = n_window
        self.n_rollback: int = llama_cpp.llama_n_rs_seq(context) if recurrent else llama_cpp.llama_n_ctx(context)
        # Of each sequence: tokens of its last decode. A decode of n tokens writes the states before the last n - 1 of
        # them; older snapshots are stale. None where a cut has already used them up.
        self._decoded: dict[int, int | None] = {}

    def decoded(self, sequences: Iterable[int]) -> None:
        """A pass has appended one token to each of `sequences`, which may repeat."""
        if self.recurrent:
            self._decoded.update(Counter(sequences))

    def length(self, sequence: int) -> int:
        """Tokens of `sequence`."""
        last: int = llama_cpp.llama_memory_seq_pos_max(self._handle, sequence)
        return last + 1

    def can_truncate(self, sequence: int, length: int) -> bool:
        """Whether the first `length` tokens of `sequence` can be kept and the others forgotten."""
        n_removed = self.length(sequence) - length
        if n_removed <= 0 or length == 0:
            return True
        if self.recurrent:
            n_decoded = self._decoded.get(sequence)
            return n_decoded is not None and n_removed <= min(self.n_rollback, n_decoded - 1)
        if self._n_window:
            first: int = llama_cpp.llama_memory_seq_pos_min(self._handle, sequence)
            return self._window_begins_at(first, length)
        return True

    def can_restore(self, n_tokens: int, length: int) -> bool:
        """Whether the state of a sequence of `n_tokens` tokens can be restored and cut to the first `length`."""
        if self.recurrent:
            return n_tokens == length
        # The state has of a window's layers only what the next token would see.
        return not self._n_window or self._window_begins_at(max(0, n_tokens - self._n_window), length)

    def _window_begins_at(self, first: int, length: int) -> bool:
        """Whether cells from position `first` on are all that the window needs after `length` tokens."""
        return 0 <= first <= max(0, length - self._n_window + 1)

    def truncate(self, sequence: int, length: int) -> bool:
        """Keep the first `length` tokens of `sequence`. False when it cannot be cut there; it is unchanged then.

        A cut of recurrent memory must be followed by a decode before the next one.
        """
        if not self.can_truncate(sequence, length):
            return False
        if self.length(sequence) <= length:
            return True
        if length == 0:
            self.clear(sequence)
            return True
        done = bool(llama_cpp.llama_memory_seq_rm(self._handle, sequence, length, -1))
        if done and self.recurrent:
            self._decoded[sequence] = None
        return done

    def share(self, source: int, target: int, length: int) -> None:
        """Make the empty `target` begin with the first `length` tokens of `source`. Cells are shared, not copied.

        Raises:
            InferenceError: recurrent memory, whose state is only that of the last token.
        """
        if self.recurrent:
            raise InferenceError("Recurrent memory cannot be shared between sequences.")
        llama_cpp.llama_memory_seq_cp(self._handle, source, target, 0, length)

    def clear(self, sequence: int) -> None:
        """Forget `sequence`; removing all of it is possible in every kind of memory."""
        llama_cpp.llama_memory_seq_rm(self._handle, sequence, -1, -1)
        self._decoded.pop(sequence, None)
