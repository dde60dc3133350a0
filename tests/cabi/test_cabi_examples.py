"""The C examples do what they show."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cabi_programs import ROOT, Library, run


def test_the_blocking_example_prints_an_answer(library: Library) -> None:
    answer = json.loads(run(library.example("blocking")))
    assert answer["usage"]["completion_tokens"] > 0


def test_the_frame_loop_example_draws_frames_while_the_answer_comes(library: Library) -> None:
    lines = [line for line in run(library.example("frame_loop")).splitlines() if line.startswith("frame ")]
    chunks = [json.loads(line.partition(": ")[2]) for line in lines]
    assert len({line.partition(":")[0] for line in lines}) > 1
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    assert chunks[-1]["atelico"]["timings"]["tokens_per_second"] > 0


def test_the_streaming_example_prints_the_text(library: Library) -> None:
    assert "key" in run(library.example("streaming"))


def test_the_cancel_example_keeps_what_was_said(library: Library) -> None:
    assert run(library.example("cancel")).endswith("cancelled: yes\n")


@pytest.mark.parametrize("page", ["README.md", "docs/c.md"])
def test_the_program_in_the_documentation_answers(library: Library, tmp_path: Path, page: str) -> None:
    blocks = re.findall(r"```c\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    source = tmp_path / "documented.c"
    source.write_text(blocks[0], encoding="utf-8")
    assert json.loads(run(library.compile(source)))["object"] == "chat.completion"
