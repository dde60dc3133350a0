"""What a request says to be speculated for, by proposer."""

from __future__ import annotations

from typing import Any


def fields(proposer: str, k: int, answer: str) -> dict[str, Any]:
    """The request fields for `proposer`.

    Args:
        k: draft tokens per round; a prediction takes as many as the engine lets it.
        answer: the plain one. A prediction is this with every seventh word wrong.
    """
    if proposer != "prediction":
        return {"speculative": {"proposer": proposer, "k": k}}
    words = [word if i % 7 else "dragon" for i, word in enumerate(answer.split(" "), 1)]
    return {"prediction": {"type": "content", "content": " ".join(words)}}
