"""`atelico chat` with a text: what goes to stdout, what to stderr, and the exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest
from cli_support import MODEL, Atelico

import atelico as package

ASK = ("chat", "--model", MODEL, "--temperature", "0", "--max-tokens", "8")


def test_version_is_printed(atelico: Atelico) -> None:
    run = atelico("--version")
    assert (run.exit_code, run.stdout) == (0, f"atelico {package.__version__}\n")


def test_answer_goes_to_stdout_alone(atelico: Atelico) -> None:
    run = atelico(*ASK, "Say hello.")
    assert run.exit_code == 0
    assert run.stdout.strip()
    assert run.stdout.endswith("\n")
    assert run.stderr == ""


def test_greedy_answer_is_the_same_with_and_without_speculation(atelico: Atelico) -> None:
    plain = atelico(*ASK, "Repeat: one two three one two three.")
    drafted = atelico(*ASK, "--speculative", "prompt_lookup", "--k", "3", "Repeat: one two three one two three.")
    assert plain.stdout == drafted.stdout


def test_seed_makes_an_answer_repeatable(atelico: Atelico) -> None:
    asked = ("chat", "--model", MODEL, "--temperature", "1.5", "--max-tokens", "12")
    texts = [atelico(*asked, "--seed", seed, "Invent a word.").stdout for seed in ("1", "1", "2")]
    assert texts[0] == texts[1] != texts[2]


def test_without_a_model_the_first_installed_one_answers_and_is_named(atelico: Atelico) -> None:
    run = atelico("chat", "--max-tokens", "2", "Hi")
    assert run.exit_code == 0
    assert run.stderr == f"using the model {MODEL}\n"


def test_without_any_model_the_error_says_where_to_put_one(
    atelico: Atelico, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("atelico.engine.Engine.models", lambda _self: [])
    run = atelico("chat", "Hi")
    assert run.exit_code == 1
    assert str(tmp_path / "no-models") in run.stderr


def test_stats_count_the_answer(atelico: Atelico) -> None:
    run = atelico(*ASK, "--stats", "--speculative", "prompt_lookup", "Say hello.")
    assert "8 answer tokens (length)" in run.stderr
    assert "draft tokens accepted" in run.stderr


def test_system_message_reaches_the_model(atelico: Atelico) -> None:
    def prompt_tokens(*options: str) -> int:
        return int(atelico(*ASK, "--stats", *options, "Hi").stderr.split(" prompt ")[0])

    assert prompt_tokens("--system", " ".join(["ahoy"] * 60)) > prompt_tokens() + 30


def test_schema_is_enforced(atelico: Atelico, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"class": {"enum": ["mage", "rogue"]}, "level": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["class", "level"],
        "additionalProperties": False,
    }
    file = tmp_path / "a character (1).json"
    file.write_text(json.dumps(schema), encoding="utf-8")
    run = atelico("chat", "--model", MODEL, "--temperature", "0", "--schema", str(file), "A character as JSON.")
    assert run.exit_code == 0, run.stderr
    jsonschema.validate(json.loads(run.stdout), schema)


def test_what_a_schema_cannot_enforce_is_a_warning(atelico: Atelico, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(
        '{"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3, "uniqueItems": true}', encoding="utf-8"
    )
    run = atelico("chat", "--model", MODEL, "--temperature", "0", "--schema", str(file), "Numbers as JSON.")
    assert run.exit_code == 0, run.stderr
    assert "warning: " in run.stderr
    assert "uniqueItems" in run.stderr


def test_the_help_names_every_proposer(atelico: Atelico) -> None:
    words = re.findall(r"\w+", atelico("chat", "--help").stdout)
    assert {"prompt_lookup", "lookahead", "mtp", "draft_model", "auto", "none"} <= set(words)


def test_stochastic_acceptance_alone_speculates(atelico: Atelico) -> None:
    run = atelico(*ASK, "--stats", "--acceptance", "stochastic", "Say hello.")
    assert run.exit_code == 0, run.stderr
    assert "draft tokens accepted" in run.stderr


def test_unknown_proposer_answers_plainly_and_says_so(atelico: Atelico) -> None:
    run = atelico(*ASK, "--speculative", "crystal_ball", "Say hello.")
    assert run.exit_code == 0
    assert run.stderr == "decoded plainly: unknown proposer 'crystal_ball'\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("chat", "--model", "nobody", "Hi"), "nobody"),
        (("chat", "--model", MODEL, "--temperature", "9", "Hi"), "temperature"),
        (("chat", "--model", MODEL, "--k", "0", "Hi"), "speculative.k"),
        (("chat", "--model", MODEL, "--acceptance", "always", "Hi"), "exact, stochastic"),
        (("chat", "--model", MODEL, "--max-tokens", "-1", "Hi"), "max_tokens"),
        (("chat", "--model", MODEL, "word " * 2000), "context"),
        (("--config", "/nonexistent/config.toml", "chat", "Hi"), "/nonexistent/config.toml"),
        (("--config", "/nonexistent/config.toml", "models"), "/nonexistent/config.toml"),
    ],
    ids=["model", "temperature", "k", "acceptance", "max_tokens", "context", "config of chat", "config of models"],
)
def test_failure_is_one_line_on_stderr_and_exit_code_1(atelico: Atelico, arguments: tuple[str, ...], said: str) -> None:
    run = atelico(*arguments)
    assert run.exit_code == 1
    assert run.stdout == ""
    assert run.stderr.startswith("atelico: ")
    assert run.stderr.count("\n") == 1
    assert said in run.stderr


def test_wrong_configuration_names_its_field(atelico: Atelico, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('n_lanes = "many"', encoding="utf-8")
    run = atelico("--config", str(file), "models")
    assert run.exit_code == 1
    assert "n_lanes" in run.stderr


def test_configuration_file_gives_aliases(atelico: Atelico, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[aliases]\nnpc = "{MODEL}"\n', encoding="utf-8")
    run = atelico("--config", str(file), "chat", "--model", "npc", "--max-tokens", "2", "Hi")
    assert run.exit_code == 0, run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("chat", "--schema", "/nonexistent/schema.json", "Hi"),
        ("chat", "--json", "/nonexistent/request.json"),
        ("chat", "--json", "{}", "--k", "3"),
        ("chat", "--json", "{}", "Hi"),
        ("chat", "--temperature", "warm", "Hi"),
        ("chat", "--no-such-option"),
        ("no-such-command",),
    ],
)
def test_wrong_usage_is_exit_code_2(atelico: Atelico, arguments: tuple[str, ...]) -> None:
    run = atelico(*arguments)
    assert run.exit_code == 2
    assert run.stdout == ""
    assert "Error" in run.stderr


def test_schema_that_is_no_json_is_wrong_usage(atelico: Atelico, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text("{type: object}", encoding="utf-8")
    run = atelico("chat", "--schema", str(file), "Hi")
    assert run.exit_code == 2
    assert "not valid JSON" in run.stderr
