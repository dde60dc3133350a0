"""The dialogue: what becomes history, and the commands inside it."""

from __future__ import annotations

from typing import Any

import pytest
from cli_support import MODEL, Atelico

from atelico.cli import dialogue
from atelico.cli.ask import AskOptions
from atelico.cli.reply import Reply
from atelico.config import EngineConfig
from atelico.decoding.answer import end_unstarted
from atelico.engine import Engine
from atelico.errors import ContextOverflowError, InferenceError
from atelico.job import Job
from atelico.protocol.read import decode_request


def reply(text: str, *, interrupted: bool = False) -> Reply:
    """A finished answer that no model gave."""
    job = Job(decode_request({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}))
    end_unstarted(job)
    completion = job.result()
    completion.choices[0].message.content = text
    return Reply(completion, interrupted)


Line = str | type[BaseException]


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a dialogue of typed lines against scripted answers; returns the messages of each request."""

    def run(lines: list[Line], answers: list[Reply | Exception], system: str | None = None) -> list[list[str]]:
        typed, scripted = iter(lines), iter(answers)
        asked: list[list[str]] = []

        def read(_prompt: str) -> str:
            line = next(typed, EOFError)
            if isinstance(line, str):
                return line
            raise line

        def answer(_engine: Engine, request: dict[str, Any], _options: AskOptions) -> Reply:
            asked.append([f"{message['role']}: {message['content']}" for message in request["messages"]])
            scripted_answer = next(scripted)
            if isinstance(scripted_answer, Exception):
                raise scripted_answer
            return scripted_answer

        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr(dialogue, "stream_reply", answer)
        with Engine(EngineConfig()) as engine:
            dialogue.run_dialogue(engine, AskOptions(MODEL, system=system))
        return asked

    return run


def test_each_request_carries_the_dialogue_so_far(talk: Any) -> None:
    asked = talk(["My name is Ada.", "Who am I?"], [reply("Hello Ada."), reply("Ada.")], system="Be brief.")
    assert asked[1] == ["system: Be brief.", "user: My name is Ada.", "assistant: Hello Ada.", "user: Who am I?"]


def test_reset_forgets_all_but_the_system_message(talk: Any) -> None:
    asked = talk(["One.", "/reset", "Two."], [reply("1"), reply("2")], system="Be brief.")
    assert asked[1] == ["system: Be brief.", "user: Two."]


def test_quit_ends_the_dialogue(talk: Any) -> None:
    assert talk(["/quit", "Never asked."], []) == []


def test_empty_lines_and_unknown_commands_are_not_sent(talk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert talk(["", "   ", "/dance"], []) == []
    assert capsys.readouterr().err.count("/quit") == 2


def test_failed_request_leaves_no_trace(talk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = talk(["One.", "Two."], [InferenceError("It broke."), reply("2")])
    assert asked[1] == ["user: Two."]
    assert "atelico: It broke." in capsys.readouterr().err


def test_full_context_points_to_reset(talk: Any, capsys: pytest.CaptureFixture[str]) -> None:
    talk(["One."], [ContextOverflowError("Too long.")])
    assert "/reset" in capsys.readouterr().err.partition("Too long.")[2]


def test_cancelled_answer_stays_as_far_as_it_was_seen(talk: Any) -> None:
    asked = talk(["One.", "Two."], [reply("Half an", interrupted=True), reply("2")])
    assert asked[1] == ["user: One.", "assistant: Half an", "user: Two."]


def test_answer_cancelled_before_its_first_word_leaves_no_trace(talk: Any) -> None:
    asked = talk(["One.", "Two."], [reply("", interrupted=True), reply("2")])
    assert asked[1] == ["user: Two."]


def test_ctrl_c_at_the_prompt_does_not_leave(talk: Any) -> None:
    assert talk([KeyboardInterrupt, "One."], [reply("1")]) == [["user: One."]]


def test_piped_lines_are_answered_one_after_the_other(atelico: Atelico) -> None:
    run = atelico(
        "chat", "--model", MODEL, "--temperature", "0", "--max-tokens", "6", "--stats", stdin="Hello.\nAgain.\n/quit\n"
    )
    assert run.exit_code == 0
    assert len(run.stdout.splitlines()) >= 2
    assert run.stderr.count(" answer tokens") == 2
