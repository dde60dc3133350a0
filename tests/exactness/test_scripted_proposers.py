"""Whatever a proposer guesses, the answer is that of plain decoding, and no rejected guess stays in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from atelico import Engine, EngineConfig
from support.memory import assert_same_run
from support.observe import Run, run
from support.prompts import request
from support.scripted import Script, Scripted, always, failing, installed, replaying, right_then
from support.tiny_models import END_ID, START_ID, vocabulary

N_VOCAB = len(vocabulary().tokens)
BRACE, NEWLINE = vocabulary().tokens.index("}"), vocabulary().tokens.index("\u010a")

SHEET: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 12},
        "class": {"enum": ["mage", "thief", "warrior"]},
        "level": {"type": "integer", "minimum": 1, "maximum": 20},
        "items": {"type": "array", "items": {"enum": ["key", "stone", "gold"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "class", "level", "items"],
    "additionalProperties": False,
}

# Each makes a script from the whole right answer: prompt and output.
SCRIPTS: dict[str, Callable[[Sequence[int]], Script]] = {
    "nothing": lambda _answer: always([]),
    "always right": lambda answer: replaying(answer),
    "always the next id": lambda answer: replaying(answer, lambda token: (token + 1) % N_VOCAB),
    "always the same token": lambda _answer: always([37] * 8),
    "right once, then wrong": lambda answer: right_then(answer, [41, 42, 43], 1),
    "right three times, then wrong": lambda answer: right_then(answer, [41, 42, 43], 3),
    "the end token": lambda _answer: always([END_ID]),
    "right, then the end token and more": lambda answer: right_then(answer, [END_ID, 50, 51], 2),
    "right, then past the end": lambda answer: right_then(answer, [60] * 300, 300),
    "control tokens": lambda _answer: always([START_ID, 0, START_ID]),
    "right, then a brace, the end, a newline": lambda answer: right_then(answer, [BRACE, END_ID, NEWLINE], 3),
    "ids beyond the vocabulary": lambda _answer: always([N_VOCAB, N_VOCAB + 5, 2**31 - 1]),
    "negative ids": lambda _answer: always([-1, -(2**31)]),
    "right, then an id beyond the vocabulary": lambda answer: right_then(answer, [N_VOCAB, 3], 2),
    "ids that no int32 holds": lambda _answer: always([2**31, 2**40, -(2**40)]),
    "far more than the budget": lambda _answer: always([70] * 5000),
    "an exception": lambda _answer: failing(0),
    "an exception after two guesses": lambda _answer: failing(2),
}

# Each ends in another way: max_tokens, the context, an end token, a stop string, a finished grammar.
KINDS: dict[str, dict[str, Any]] = {
    "max tokens": {"max_tokens": 40, "temperature": 0},
    "seeded": {"max_tokens": 40, "temperature": 0.8, "seed": 11, "logprobs": True, "top_logprobs": 3},
    "penalised": {
        "max_tokens": 40,
        "temperature": 0.7,
        "seed": 5,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.4,
        "presence_penalty": 0.3,
        "logit_bias": {"300": 2.0, "60": -5.0},
    },
    "context": {"temperature": 0},
    "end token": {"temperature": 0, "logprobs": True},
    "stop string": {
        "max_tokens": 60,
        "temperature": 0,
        "stop": ["thief key under", "key under stone"],
        "logprobs": True,
    },
    "schema": {
        "max_tokens": 300,
        "temperature": 0,
        "logprobs": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "sheet", "schema": SHEET}},
    },
    "schema, seeded, cut off": {
        "max_tokens": 44,
        "temperature": 1.0,
        "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "sheet", "schema": SHEET}},
    },
}
N_CTX = {"context": 160}
FINISHED = {"end token": "stop", "stop string": "stop", "schema": "stop"}


@pytest.fixture(scope="module")
def small_engine() -> Any:
    """Whose context ends soon."""
    with Engine(EngineConfig(n_ctx=160, n_threads=1, n_lanes=1, n_kept=0)) as engine:
        yield engine


@pytest.fixture
def ask(tiny_engine: Engine, small_engine: Engine, tiny_folder: Path) -> Callable[..., Run]:
    """Runs a request of a kind."""

    def asked(kind: str, **fields: Any) -> Run:
        model = tiny_folder / ("ending.gguf" if kind == "end token" else "llama.gguf")
        engine = small_engine if kind == "context" else tiny_engine
        return run(engine, request(str(model), "Where is the key? The miller lost it.", **KINDS[kind], **fields))

    return asked


@pytest.fixture(scope="module")
def plain_runs() -> dict[str, Run]:
    """Plain runs by kind, made once."""
    return {}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_guess_changes_the_answer(
    ask: Callable[..., Run], plain_runs: dict[str, Run], kind: str, script: str
) -> None:
    plain = plain_runs.get(kind) or plain_runs.setdefault(kind, ask(kind))
    assert plain.finish_reason == FINISHED.get(kind, "length")
    proposer = Scripted(SCRIPTS[script]([*plain.prompt, *plain.output]))
    with installed(proposer) as drafting:
        drafted = ask(kind, **drafting)
    assert proposer.n_calls > 0
    assert_same_run(plain, drafted)
    assert_same_run(plain, ask(kind))  # and the next request finds a clean engine


def test_right_guesses_are_accepted_and_counted(ask: Callable[..., Run]) -> None:
    plain = ask("max tokens")
    with installed(Scripted(replaying([*plain.prompt, *plain.output]))) as drafting:
        # A near tie is decided by a pass of its own, and its draft token then counts as not accepted.
        drafted = ask("max tokens", **{**drafting, "atelico": {"governor": "off", "near_tie": "off"}})
    speculation = drafted.answer.atelico.speculation
    assert speculation.active
    assert speculation.accepted == speculation.proposed == speculation.sources["scripted"] > 30
    assert len(drafted.passes) < len(plain.passes) / 4


def test_wrong_guesses_are_rejected_and_counted(ask: Callable[..., Run]) -> None:
    with installed(Scripted(always([37] * 8))) as drafting:
        speculation = ask("max tokens", **drafting).answer.atelico.speculation
    assert speculation.active
    assert speculation.proposed > 100
    assert speculation.accepted == 0


@pytest.mark.parametrize("ids", [[N_VOCAB], [-1], [2**31], [-(2**40)]], ids=str)
def test_impossible_ids_never_reach_the_model(ask: Callable[..., Run], ids: list[int]) -> None:
    with installed(Scripted(always(ids))) as drafting:
        drafted = ask("max tokens", **drafting)
    assert all(0 <= row.token < N_VOCAB for rows in drafted.passes for row in rows)
    assert drafted.proposed == 0
    assert drafted.answer.atelico.speculation.active


def test_a_failing_proposer_is_dropped_and_the_response_says_so(ask: Callable[..., Run]) -> None:
    proposer = Scripted(failing(2))
    with installed(proposer) as drafting:
        speculation = ask("max tokens", **drafting).answer.atelico.speculation
    assert proposer.n_calls == 3
    assert not speculation.active
    assert speculation.reason == "proposer 'scripted' failed"


@pytest.mark.parametrize("sees_the_prompt", [False, True])
def test_a_proposer_that_fails_to_observe_costs_speed_only(ask: Callable[..., Run], sees_the_prompt: bool) -> None:
    class Deaf(Scripted):
        def observe(self, tokens: Sequence[int]) -> None:
            if self.context or not sees_the_prompt:
                raise RuntimeError("this proposer fails on purpose")
            super().observe(tokens)

    plain = ask("max tokens")
    with installed(Deaf(always([37]))) as drafting:
        drafted = ask("max tokens", **drafting)
    assert_same_run(plain, drafted)
    assert drafted.answer.atelico.speculation.reason == "proposer 'scripted' failed"


def test_a_proposer_sees_every_committed_token_once_and_nothing_else(ask: Callable[..., Run]) -> None:
    for script in (always([]), always([37] * 8), right_then([], [END_ID], 0)):
        proposer = Scripted(script)
        with installed(proposer) as drafting:
            drafted = ask("max tokens", **drafting)
        assert tuple(proposer.context) == (*drafted.prompt, *drafted.output)


def test_no_draft_is_asked_for_beyond_what_may_still_come(ask: Callable[..., Run]) -> None:
    budgets: list[tuple[int, int]] = []

    def script(context: Sequence[int], budget: int) -> list[int]:
        budgets.append((len(context), budget))
        return [37] * budget

    for kind in ("max tokens", "context"):
        budgets.clear()
        with installed(Scripted(script)) as drafting:
            drafted = ask(kind, **drafting)
        last = len(drafted.prompt) + len(drafted.output)
        assert all(0 < budget <= last - n_context - 1 for n_context, budget in budgets)
        assert max(budget for _, budget in budgets) == 8


@pytest.mark.parametrize("guess", ["right", "wrong"])
def test_a_dialogue_continues_from_memory_as_if_nothing_had_been_drafted(tiny_folder: Path, guess: str) -> None:
    def dialogue(engine: Engine, drafting: dict[str, Any]) -> tuple[Run, Run]:
        body = request(str(tiny_folder / "llama.gguf"), "Where is the key?", max_tokens=40, temperature=0)
        body["cache_prompt"] = True
        first = run(engine, {**body, **drafting})
        said = [
            *body["messages"],
            {"role": "assistant", "content": first.text},
            {"role": "user", "content": "And now?"},
        ]
        return first, run(engine, {**body, "messages": said})

    with Engine(EngineConfig(n_ctx=1024, n_threads=1)) as engine:
        plain, plain_next = dialogue(engine, {})
    script = replaying([*plain.prompt, *plain.output]) if guess == "right" else always([37] * 8)
    with Engine(EngineConfig(n_ctx=1024, n_threads=1)) as engine, installed(Scripted(script)) as drafting:
        drafted, drafted_next = dialogue(engine, drafting)
    assert drafted.proposed > 0
    assert drafted.text == plain.text
    assert drafted_next.text == plain_next.text
    assert drafted_next.answer.atelico.cached_tokens == plain_next.answer.atelico.cached_tokens > len(plain.prompt)
