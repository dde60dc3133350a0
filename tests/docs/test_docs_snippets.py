"""Every snippet of README.md and docs/*.md does what it says.

- ```python runs in a namespace of its own and must not fail.
- ```sh holds commands: those of `atelico` run and must end with 0; those of `make` must be targets of the Makefile.
- ```toml is a configuration.
- ```json is a request where it has messages, and JSON in any case.
- other languages are not run.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_blocks import ROOT, Block, blocks, pages

from atelico.config import load_config
from atelico.protocol.read import decode_request

# Other spellings of what is run here: a block in one of these would rot unseen.
ALIASES = {"py", "python3", "pycon", "bash", "shell", "console", "zsh", "jsonc", "json5"}


def each(language: str) -> pytest.MarkDecorator:
    """Run a test once per block in `language`."""
    found = list(blocks(language))
    assert found, f"no block in {language!r}: is the parser broken?"
    return pytest.mark.parametrize("block", found, ids=[block.where for block in found])


@pytest.fixture(autouse=True)
def small_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Snippets run in an empty folder, with a small context and one thread."""
    monkeypatch.setenv("ATELICO_N_CTX", "1024")
    monkeypatch.setenv("ATELICO_N_THREADS", "1")
    monkeypatch.chdir(tmp_path)


@each("python")
def test_python_snippet_runs(block: Block) -> None:
    exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})


@each("sh")
def test_shell_snippet_runs(block: Block) -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for command in block.commands:
        if command.startswith("make "):
            assert command.removeprefix("make ") in targets, command
            continue
        assert "atelico " in command, f"neither atelico nor make: {command}"
        run = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        )
        assert run.returncode == 0, f"{command}\n{run.stderr}"
        assert run.stdout, command


@each("toml")
def test_toml_snippet_is_a_configuration(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(block.text, encoding="utf-8")
    assert load_config(file, environ={})


@each("json")
def test_json_snippet_is_a_request(block: Block) -> None:
    value = json.loads(block.text)
    if "messages" in value:
        assert decode_request(value).model == value["model"]


def test_no_block_hides_behind_another_name_of_its_language() -> None:
    fences = [
        line for page in pages() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```")
    ]
    assert len(fences) % 2 == 0
    assert not {fence.removeprefix("```").strip() for fence in fences} & ALIASES
