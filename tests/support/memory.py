"""Whether a run left exactly its tokens in memory."""

from __future__ import annotations

from .observe import Run


def holds_exactly_the_returned_tokens(run: Run) -> bool:
    """Memory holds prompt and output; only the last token may be missing, where nothing was decoded after it.

    For runs that read their whole prompt (nothing reused).
    """
    returned = (*run.prompt, *run.output)
    ended_in_a_token = run.finish_reason == "stop" and run.n_memory == len(returned)
    return run.memory == returned[: run.n_memory] and (ended_in_a_token or run.n_memory == len(returned) - 1)
