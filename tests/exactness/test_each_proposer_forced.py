"""Each proposer alone, made to be always wrong and always right: text, usage, log-probabilities and memory are those of
plain decoding. Its own code runs all the same, with its memory and its passes; only what it says is exchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from atelico import Engine
from atelico.speculation.draft_model import ModelDrafter
from atelico.speculation.lookahead import Lookahead
from atelico.speculation.mtp import HeadDrafter
from atelico.speculation.prediction import Prediction
from atelico.speculation.prompt_lookup import PromptLookup
from support.memory import assert_same_run
from support.observe import run
from support.prompts import request, speculative
from support.tiny_models import write_tiny

QUESTION = "Where is the key? The miller lost it under the old bridge."
WRONG = 11
MODES: list[dict[str, Any]] = [{"temperature": 0}, {"temperature": 0.8, "seed": 11}]
# These batches are exact; without the guard, a draft ends only where it is wrong.
ALL_VERIFIED = {"atelico": {"governor": "off", "near_tie": "off"}}
# The class that proposes, the model, and what asks for it.
PROPOSERS: dict[str, tuple[type[Any], str, dict[str, Any]]] = {
    "prompt_lookup": (PromptLookup, "plain", speculative("prompt_lookup", 4)),
    "lookahead": (Lookahead, "plain", speculative("lookahead", 4)),
    "prediction": (Prediction, "plain", {"prediction": {"type": "content", "content": "the key lies under the stone"}}),
    "draft_model": (ModelDrafter, "plain", speculative("draft_model", 4)),
    "mtp": (HeadDrafter, "head", speculative("mtp", 4)),
}
Guess = Callable[[Sequence[int], int], list[int]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a smaller one beside it, and one with a NextN head; their batches are exact."""
    folder = tmp_path_factory.mktemp("forced")
    write_tiny("llama", folder / "plain.gguf", noise=0.7, seed=2, quantised=True)
    write_tiny("llama", folder / "plain-draft.gguf", noise=0.3, seed=2, n_layer=1, quantised=True)
    write_tiny("qwen35", folder / "head.gguf", noise=0.5, seed=2, head="aligned", quantised=True)
    return folder


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any], Guess], None]:
    """Makes a class of proposers say what a guess says, given all committed tokens and the budget."""
    seen: dict[int, list[int]] = defaultdict(list)

    def forced(kind: type[Any], guess: Guess) -> None:
        observe, propose = kind.observe, kind.propose

        def observed(self: Any, tokens: Sequence[int]) -> None:
            seen[id(self)] += tokens
            observe(self, tokens)

        def proposed(self: Any, ahead: Sequence[int], budget: int) -> list[int]:
            propose(self, ahead, budget)
            self.match = 4
            return guess([*seen[id(self)], *ahead], budget)

        monkeypatch.setattr(kind, "observe", observed)
        monkeypatch.setattr(kind, "propose", proposed)

    return forced


@pytest.mark.parametrize("mode", MODES, ids=["greedy", "seeded"])
@pytest.mark.parametrize("right", [False, True], ids=["nothing is accepted", "everything is accepted"])
@pytest.mark.parametrize("name", PROPOSERS)
def test_a_proposer_that_is_always_wrong_or_right_changes_nothing(
    tiny_engine: Engine, folder: Path, force: Any, name: str, right: bool, mode: dict[str, Any]
) -> None:
    kind, model, fields = PROPOSERS[name]
    options = {"max_tokens": 60, "logprobs": True, "top_logprobs": 2, **mode}
    body = request(str(folder / f"{model}.gguf"), QUESTION, **options)
    plain = run(tiny_engine, body)
    answer = [*plain.prompt, *plain.output]
    assert WRONG not in plain.output

    def guess(context: Sequence[int], budget: int) -> list[int]:
        return answer[len(context) : len(context) + budget] if right else [WRONG] * budget

    force(kind, guess)
    drafted = run(tiny_engine, {**body, **fields, **ALL_VERIFIED})
    assert drafted.answer.atelico.speculation.reason is None
    assert drafted.proposed > 20
    assert drafted.accepted == (drafted.proposed if right else 0)
    assert_same_run(plain, drafted, kept=name != "mtp")
    assert drafted.answer.choices[0].logprobs == plain.answer.choices[0].logprobs
