"""A bundle runs on a system that has no Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bundle_sandbox import Sandbox, environment

from atelico.bundle import bundle
from atelico.runtime.processor import processor_flags

MODEL = "SmolLM2-135M-Instruct"


def request(**options: Any) -> str:
    """A short greedy request as JSON."""
    messages = [{"role": "user", "content": "Name a colour, then say it again."}]
    return json.dumps({"model": MODEL, "messages": messages, "max_tokens": 16, "temperature": 0, **options})


def test_the_c_example_answers_without_python_or_home(sandbox: Sandbox) -> None:
    done = sandbox.run("blocking")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["usage"]["completion_tokens"] > 0


def test_two_games_use_one_bundle_at_once(sandbox: Sandbox) -> None:
    command = sandbox.command("blocking")
    both = [subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = [json.loads(game.communicate(timeout=240)[0]) for game in both]
    assert answers[0]["choices"] == answers[1]["choices"]


def test_schema_and_speculation_work_in_the_bundle(sandbox: Sandbox) -> None:
    colour = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    schema = {**colour, "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "c", "strict": True, "schema": schema}}
    done = sandbox.run("ask", request(response_format=wanted, speculative={"proposer": "auto"}, max_tokens=40))
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert json.loads(answer["choices"][0]["message"]["content"])["colour"] in ("red", "blue")
    assert answer["atelico"]["speculation"]["accepted"] > 0


def test_the_bundle_writes_nothing_into_its_folder(sandbox: Sandbox) -> None:
    before = sorted(sandbox.game.rglob("*"))
    assert sandbox.run("ask", request()).returncode == 0
    assert sorted(sandbox.game.rglob("*")) == before


def test_a_missing_file_is_named(sandbox: Sandbox, tmp_path: Path) -> None:
    removed = sandbox.game / "atelico/python/libffi.so.8"
    removed.rename(tmp_path / removed.name)
    try:
        done = sandbox.run("ask", request())
    finally:
        (tmp_path / removed.name).rename(removed)
    assert done.returncode == 1
    assert "libffi.so.8" in done.stdout and "Put back" in done.stdout


def test_missing_kernels_are_named(sandbox: Sandbox, tmp_path: Path) -> None:
    kernels = list((sandbox.game / "atelico/python/packages/llama_cpp/lib").glob("libggml-cpu-*"))
    if not kernels:
        pytest.skip("llama.cpp has not been compiled for all processors")
    for path in kernels:
        path.rename(tmp_path / path.name)
    try:
        done = sandbox.run("ask", request())
    finally:
        for path in kernels:
            (tmp_path / path.name).rename(path)
    assert done.returncode == 1
    assert "libggml-cpu" in done.stdout and "processor" in done.stdout


def test_a_processor_that_is_too_old_is_refused_in_words(sandbox: Sandbox, tmp_path: Path) -> None:
    if "avx2" not in processor_flags():
        pytest.skip("this machine's llama.cpp needs nothing that could be taken away")
    native = bundle(tmp_path / "native", native=True).folder
    old = tmp_path / "cpuinfo"
    old.write_text("processor\t: 0\nflags\t\t: fpu sse sse2 pni ssse3 sse4_1 sse4_2\n", encoding="ascii")
    shutil.copytree(native, sandbox.root / "native/atelico")
    kept, put = sandbox.game / "atelico", sandbox.root / "kept"
    kept.rename(put)
    (sandbox.root / "native/atelico").rename(kept)
    try:
        done = sandbox.run("ask", request(), cpuinfo=old)
    finally:
        shutil.rmtree(kept)
        put.rename(kept)
    assert done.returncode == 1, done
    assert "processor" in done.stdout and "AVX2" in done.stdout and "--native" in done.stdout


def test_the_command_makes_a_bundle_with_a_model(tmp_path: Path) -> None:
    out = tmp_path / "With Model"
    command = [sys.executable, "-m", "atelico.cli.main", "bundle", "--native", "--model", MODEL, "--for", "godot"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert (out / "models" / manifest["model"]).stat().st_size > 50_000_000
    assert (out / ".gdignore").is_file()
    assert " MB  in " in done.stdout
