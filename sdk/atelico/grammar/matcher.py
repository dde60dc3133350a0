"""Matcher: one answer's place in its grammar. The one file that calls llguidance while tokens are decoded.

The engine never raises: after an error its masks allow only the end token, which would end the answer early and
silently. So every call here is followed by a look at the error state.

Threads: one at a time. The engine drops the GIL while it works, so `masks` may run beside a llama.cpp decode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from atelico.errors import InferenceError
from atelico.grammar.closing import ClosingTokens, Search
from atelico.grammar.extent import Bounds, Extent
from atelico.grammar.vocabulary import GrammarVocabulary, MaskRow

# A number with so many digits on end is a small model running away, not a number. JSON Schema has no word for it.
MAX_DIGITS = 64
# Masks computed to find one closing while an answer is written: some 6 ms.
_CLOSING_NODES = 240


@dataclass(frozen=True)
class Form:
    """What a matcher knows of its answer besides the grammar.

    Attributes:
        closing: the tokens that end a document.
        start: where the answer begins; None where it is not one JSON text.
        bounds: how large the parts of the document may grow; None for as large as the grammar lets them.
        close_tag: the tokens that end a thought.
    """

    closing: ClosingTokens
    start: Extent | None = None
    bounds: Bounds | None = None
    close_tag: tuple[int, ...] = ()


class Matcher:
    """The state of one grammar after the committed tokens.

    Two engine matchers stand in that same state: one that only committed tokens touch, and one that walks drafts and is
    rolled back. Where a limit of the engine ends a walk, which ruins the lexer that all copies share, both are built
    anew and the committed tokens replayed: what is drafted never changes the answer.
    """

    def __init__(
        self, vocabulary: GrammarVocabulary, engine: LLMatcher, rebuild: Callable[[], LLMatcher], form: Form
    ) -> None:
        """Takes over `engine`, which is at the start of the grammar; `rebuild` makes another that shares nothing."""
        self._vocabulary = vocabulary
        self._form = form
        self._extent = form.start or Extent()  # of the committed text
        self._rebuild = rebuild
        self._committed = engine
        self._walker = engine.deep_copy()
        self._history: list[int] = []
        self._failure = ""
        self._n_digits = 0  # that the committed text ends in

    @property
    def is_complete(self) -> bool:
        """Whether the answer is finished and nothing may follow: stop now, no end token needed."""
        self._check()
        return self._committed.is_stopped()

    @property
    def is_accepting(self) -> bool:
        """Whether the answer may end here. More may follow unless `is_complete`."""
        self._check()
        return self._committed.is_accepting()

    def consume(self, token: int) -> None:
        """Commits one token that the mask allowed. End tokens are not committed: stop instead.

        Raises:
            InferenceError: the grammar refuses the token, or the engine failed.
        """
        if not self._is_walkable(token):
            raise InferenceError(f"Token {token} cannot be part of a structured answer.")
        if not self._committed.consume_token(token):
            self._recover()
            self._committed.consume_token(token)
            self._check()
        self._history.append(token)
        self._n_digits = self._digits_after(self._n_digits, token)
        self._extent = self._extent.after(self._vocabulary.piece(token))
        self._walker.consume_token(token)
        self._rewind(0)

    def forced(self) -> list[int]:
        """The tokens that must come next, in the model's own spelling; [] where there is a choice or the end."""
        return self._forced_after([])

    def legal_prefix(self, draft: Sequence[int]) -> int:
        """How many tokens of `draft`, from its start, the grammar accepts. End tokens and unknown ids are refused."""
        walked = self._walk(draft)
        self._rewind(walked)
        return walked

    def extend(self, draft: Sequence[int], budget: int) -> list[int]:
        """`draft` cut to what is legal, with the tokens that are forced after it, `budget` tokens at most."""
        draft = list(draft[:budget])
        legal = draft[: self.legal_prefix(draft)]
        return (legal + self._forced_after(legal))[:budget]

    def closing(self, enough: int) -> list[int] | None:
        """The shortest known tokens that end the answer from here, of `enough` or fewer if such are found.

        Returns:
            [] where the answer may end as it is; None where no end is found.
        """
        return self._search(self._committed, self._extent, enough)

    def closing_after(self, token: int, closing: Sequence[int], limit: int) -> list[int] | None:
        """How to end the answer within `limit` tokens once `token` were committed; commits nothing.

        Args:
            closing: a way to end the answer from here.

        Returns:
            The tokens, as `closing` does; None where there is no way so short, or none is found.
        """
        if limit < 0 or not self._is_walkable(token):
            return None
        if closing and closing[0] == token and len(closing) - 1 <= limit:
            return list(closing[1:])
        after = self._committed.deep_copy()
        if after.try_consume_tokens([token]) != 1:
            return None
        if len(closing) <= limit:
            trial = after.deep_copy()
            if trial.try_consume_tokens(list(closing)) == len(closing) and trial.is_accepting():
                return list(closing)
        found = self._search(after, self._extent.after(self._vocabulary.piece(token)), limit)
        return found if found is not None and len(found) <= limit else None

    def _search(self, engine: LLMatcher, extent: Extent, enough: int) -> list[int] | None:
        form = self._form
        return Search(self._vocabulary, form.closing, form.close_tag, _CLOSING_NODES).shortest(engine, extent, enough)

    def masks(self, draft: Sequence[int] = (), out: npt.NDArray[np.int32] | None = None) -> npt.NDArray[np.int32]:
        """The legal tokens at every position of a draft.

        Row i is the mask after draft[:i]; the last one is for the bonus token. End tokens are set where the answer may
        end, and alone where it must. Rows after a token that the grammar refuses are zero: no verify reaches them.
        Where tokens are forced, a row has only the canonical one, although other spellings are legal drafts.

        Args:
            draft: token ids.
            out: C-contiguous int32 [>= len(draft) + 1, words]; its first len(draft) + 1 rows are filled and returned.

        Returns:
            int32 [len(draft) + 1, words]; bit i (little-endian) of a row is token i.

        Raises:
            InferenceError: there is no mask for the first row: the engine failed on the committed tokens.
            ValueError: `out` has another shape or type.
        """
        rows = self._rows(len(draft) + 1, out)
        if not self._fill_rows(rows, draft):
            self._recover()
            self._fill_rows(rows, draft)
            if not rows[0].any():
                raise _engine_failed(self._failure)
        return rows

    def _fill_rows(self, rows: npt.NDArray[np.int32], draft: Sequence[int]) -> bool:
        """Fills `rows`, from where they cannot be reached or known with zeros; False when the engine failed.

        Sampling from an all-zero row is an error, so a limit met at a drafted position fails the request if, and only
        if, that position is reached.
        """
        n_digits, extent = self._n_digits, self._extent
        walked = 0
        try:
            for i, row in enumerate(rows):
                if not self._fill(row):
                    rows[i:] = 0
                    return False
                if n_digits >= MAX_DIGITS:
                    self._end_number(row)
                if self._form.bounds is not None:
                    self._bound(row, extent, self._form.bounds)
                if i == len(draft):
                    break
                if self._walk(draft[i : i + 1]) == 0:
                    rows[i + 1 :] = 0
                    # At a limit the engine refuses what its own mask allows. End tokens are never walked.
                    return not (self._is_walkable(draft[i]) and _allows(row, draft[i]))
                walked += 1
                n_digits = self._digits_after(n_digits, draft[i])
                extent = extent.after(self._vocabulary.piece(draft[i]))
        finally:
            self._rewind(walked)
        return True

    def _fill(self, row: MaskRow) -> bool:
        """Writes the walker's mask; False when the engine failed."""
        if not self._walker.is_stopped():
            self._walker.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        elif not self._walker.is_error():
            row[:] = self._vocabulary.eos_row
        if self._walker.is_error():
            self._failure = _reason(self._walker)
            return False
        return True

    def _end_number(self, row: MaskRow) -> None:
        """Takes the digits out of `row`, unless it is inside a string or nothing else is legal."""
        if (row & self._vocabulary.quote_row).any():
            return  # a quote follows digits only where it closes a string
        _restrict(row, ~self._vocabulary.digit_row)

    def _bound(self, row: MaskRow, extent: Extent, bounds: Bounds) -> None:
        """Leaves in `row` what ends the parts that have reached their bounds, unless nothing such is legal."""
        string_full, items_full, open_full = extent.is_full(bounds)
        if string_full and not extent.escaped:
            _restrict(row, self._vocabulary.quote_row)
        if items_full:
            if extent.in_array and not extent.in_string:
                _restrict(row, self._vocabulary.array_end_row)
            _restrict(row, ~self._vocabulary.next_value_row)
        if open_full:
            _restrict(row, ~self._vocabulary.opening_row)

    def _digits_after(self, n_digits: int, token: int) -> int:
        more, all_digits = self._vocabulary.ends_in_digits(token)
        return n_digits + more if all_digits else more

    def _forced_after(self, legal: Sequence[int]) -> list[int]:
        walked = self._walk(legal)
        tokens = [] if self._walker.is_stopped() else self._walker.compute_ff_tokens()
        failed = self._walker.is_error()
        self._rewind(walked)
        if failed:
            return []
        end = next((i for i, token in enumerate(tokens) if not self._is_walkable(token)), len(tokens))
        return tokens[:end]

    def _walk(self, draft: Sequence[int]) -> int:
        """Moves the walker over the legal prefix of `draft`; how many tokens that were."""
        end = next((i for i, token in enumerate(draft) if not self._is_walkable(token)), len(draft))
        if end == 0 or self._walker.is_stopped():
            return 0
        return self._walker.try_consume_tokens(list(draft[:end]))

    def _rewind(self, n_tokens: int) -> None:
        """Brings the walker back to the committed state, by a new copy where a rollback cannot."""
        if self._walker.is_error() or (n_tokens and not self._walker.rollback(n_tokens)):
            self._walker = self._committed.deep_copy()

    def _recover(self) -> None:
        """Starts over with a new engine and replays what is committed."""
        self._committed = self._rebuild()
        for token in self._history:
            self._committed.compute_bitmask()  # each mask renews the allowance of work, as in plain decoding
            self._committed.consume_token(token)
        self._check()
        self._walker = self._committed.deep_copy()

    def _is_walkable(self, token: int) -> bool:
        return self._vocabulary.is_walkable(token)

    def _check(self) -> None:
        if self._committed.is_error():
            raise _engine_failed(_reason(self._committed))

    def _rows(self, n_rows: int, out: npt.NDArray[np.int32] | None) -> npt.NDArray[np.int32]:
        n_words = self._vocabulary.n_words
        if out is None:
            return np.empty((n_rows, n_words), dtype=np.int32)
        fits = out.ndim == 2 and out.shape[0] >= n_rows and out.shape[1] == n_words
        if not fits or out.dtype != np.int32 or not out.flags.c_contiguous:
            raise ValueError(f"masks need int32 [{n_rows}, {n_words}], got {out.dtype} {list(out.shape)}")
        return out[:n_rows]


def _restrict(row: MaskRow, wanted: MaskRow) -> None:
    """Leaves in `row` the tokens that are `wanted`, if there are any."""
    left = row & wanted
    if left.any():
        row[:] = left


def _allows(row: MaskRow, token: int) -> bool:
    return 0 <= token < 32 * len(row) and bool(row.view(np.uint32)[token // 32] >> np.uint32(token % 32) & np.uint32(1))


def _reason(engine: LLMatcher) -> str:
    return engine.get_error().strip().split("\n")[0].rstrip(".") or engine.stop_reason()


def _engine_failed(reason: str) -> InferenceError:
    return InferenceError(f"The grammar engine failed: {reason}.", hint="Simplify the schema.")
