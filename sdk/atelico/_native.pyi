"""The hot kernels over logits rows, compiled from ffi/native. No request, no model, no grammar in here."""

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

@final
class Sampled:
    """One sampled token. Immutable."""

    @property
    def token(self) -> int:
        """The token id."""
    @property
    def margin(self) -> float:
        """The gap, in logits, between the chosen token and the runner-up; ``inf`` if there is none.

        Greedy: logit minus logit, after mask, bias and penalties. Otherwise: gap of the scores ``logit / temperature +
        noise`` times the temperature. Truncation aside, rows that differ by less than half of it choose the same token.
        """
    @property
    def logprob(self) -> float | None:
        """Log-probability of the token in the raw row, at least -9999.0; None unless ``n_logprobs`` was given."""
    @property
    def top(self) -> list[tuple[int, float]]:
        """The ``n_logprobs`` best (token, log-probability) pairs of the raw row, best first, equal ones by token id.

        Fewer, if fewer tokens have a logit above -inf.
        """

@final
class Sampler:
    """Samples tokens from logits rows, for one request. Keeps the token history; not for two threads at once.

    In this order: ``mask``; ``logit_bias``, added; penalties; then, unless the temperature is 0: temperature,
    ``top_k``, ``top_p``, ``min_p``, draw. NaN logits count as -inf.

    The draw is Gumbel-max: the token with the largest ``logit / temperature + gumbel(seed, position, token)`` among
    those that are left. So it depends on row, options, history, mask, seed and position, and on nothing else.
    """

    def __new__(
        cls,
        n_vocab: int,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        logit_bias: dict[int, float] | None = None,
        seed: int = 0,
    ) -> Sampler:
        """Sets the options.

        Args:
            n_vocab: logits per row.
            temperature: 0 takes the largest logit after mask, bias and penalties, the lowest token id among equals.
            top_k: keep so many best tokens; 0 or less keeps all.
            top_p: keep the shortest run of best tokens whose probabilities, renormalised after ``top_k``, reach it.
            min_p: keep tokens at least so probable as this share of the best token's probability.
            repetition_penalty: divides positive and multiplies other logits of tokens in prompt or output.
            frequency_penalty: subtracted per occurrence in the output.
            presence_penalty: subtracted once from tokens in the output.
            logit_bias: token id to what is added to its logit; ``-inf`` bans it.
            seed: any int of 64 bits, signed or unsigned.

        Raises:
            ValueError: a value is out of range or NaN; the message names the option.
        """
    def prime(self, tokens: Sequence[int]) -> None:
        """Counts prompt tokens, for the repetition penalty only.

        Raises:
            ValueError: a token id is not below ``n_vocab``; nothing was counted.
        """
    def accept(self, token: int) -> None:
        """Counts a committed output token, for all three penalties.

        Raises:
            ValueError: the token id is not below ``n_vocab``.
        """
    def sample(
        self,
        row: NDArray[np.float32] | Buffer,
        mask: NDArray[np.int32] | NDArray[np.uint32] | Buffer | None = None,
        *,
        position: int,
        n_logprobs: int | None = None,
    ) -> Sampled:
        """Samples one token; changes nothing, so the same call gives the same token.

        Long rows are read without the GIL: don't write to ``row`` or ``mask`` meanwhile.

        Args:
            row: C-contiguous float32 buffer of ``n_vocab`` logits, read in place.
            mask: C-contiguous int32 or uint32 buffer of ``ceil(n_vocab / 32)`` words; bit i, counted from the lowest
                bit of the first word, allows token i. None allows all.
            position: of the token in its sequence, 0 <= position < 2**63; chooses the noise.
            n_logprobs: how many best tokens to report log-probabilities of; 0 reports only the sampled token's.

        Raises:
            ValueError: a buffer has the wrong length or type, an argument is out of range, or no token is possible.
            RuntimeError: another thread is in a call of this sampler.
        """
    def probabilities(
        self,
        row: NDArray[np.float32] | Buffer,
        mask: NDArray[np.int32] | NDArray[np.uint32] | Buffer | None = None,
        *,
        out: NDArray[np.float64] | Buffer,
    ) -> None:
        """Writes the distribution that `sample` draws from: after every option, 0 for what is cut, 1 in sum.

        Relative error about 1e-6, or that of float32 at 87 times the temperature below the best logit.

        Args:
            row, mask: as in `sample`.
            out: C-contiguous, writable float64 buffer of ``n_vocab`` values.

        Raises:
            ValueError: a buffer has the wrong length or type, or no token is possible.
            RuntimeError: another thread is in a call of this sampler.
        """
    def uniform(self, position: int, purpose: int) -> float:
        """A uniform number strictly between 0 and 1, a function of seed, position and purpose.

        Independent of the noise of `sample` and of the numbers of other purposes, 0 <= purpose < 2**64.

        Raises:
            ValueError: the position is out of range.
            OverflowError: the purpose is.
        """

def gumbel(seed: int, position: int, tokens: Sequence[int]) -> list[float]:
    """The standard Gumbel noise of each token: what a sampler adds to its logit / temperature.

    Raises:
        ValueError: seed or position is out of range.
        OverflowError: a token id is not between 0 and 2**32 - 1.
    """

@final
class AbortFlag:
    """Stops a forward pass of llama.cpp from another thread. Must outlive the context that was given it."""

    def __init__(self) -> None: ...
    def set(self) -> None:
        """Stop the pass that runs, and every later one until `clear`."""
    def clear(self) -> None:
        """Let passes run again."""
    def is_set(self) -> bool:
        """Whether it is raised."""
    @property
    def function(self) -> int:
        """Address of the C function, `bool (*)(void *data)`, that reads the flag."""
    @property
    def data(self) -> int:
        """Address to hand that function."""

def install_kernels(libllama: int, tier: str | None = None) -> str:
    """Hook the CPU kernels into llama.cpp, before its first model is loaded; returns the name of the set that is used.

    ``libllama`` is the loader's handle of libllama; ``tier`` the set to use, by default the best for this processor.

    Raises ``RuntimeError`` with the reason where llama.cpp goes on with its own kernels.
    """

def kernel_tiers() -> list[str]:
    """The sets of kernels that this processor can run, the best first."""
