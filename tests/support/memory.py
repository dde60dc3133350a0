"""Whether a run left exactly its tokens in memory, and the same as another one."""

from __future__ import annotations

import pytest

from .observe import Run


def holds_exactly_the_returned_tokens(run: Run) -> bool:
    """Memory holds prompt and output; only the last token may be missing, where nothing was decoded after it.

    For runs that read their whole prompt (nothing reused).
    """
    returned = (*run.prompt, *run.output)
    ended_in_a_token = run.finish_reason == "stop" and run.n_memory == len(returned)
    return run.memory == returned[: run.n_memory] and (ended_in_a_token or run.n_memory == len(returned) - 1)


def assert_same_run(plain: Run, other: Run, *, kept: bool = True) -> None:
    """Text, tokens, ending, usage, log-probabilities and what is left in memory are the same.

    `kept`: whether the model's memory outlives a request, which a recurrent one does not.
    """
    assert other.text == plain.text
    assert other.output == plain.output
    assert other.finish_reason == plain.finish_reason
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert getattr(other.answer.usage, count) == getattr(plain.answer.usage, count)
    assert other.n_memory == plain.n_memory
    assert other.memory == plain.memory
    assert holds_exactly_the_returned_tokens(other) if kept else other.n_memory == 0
    ours, theirs = other.answer.choices[0].logprobs, plain.answer.choices[0].logprobs
    assert (ours is None) == (theirs is None)
    if ours is not None and theirs is not None:
        assert [token.bytes for token in ours.content] == [token.bytes for token in theirs.content]
        assert [token.logprob for token in ours.content] == pytest.approx(
            [token.logprob for token in theirs.content], abs=1e-3
        )
