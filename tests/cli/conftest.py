"""Fixtures for the command's tests: run it in this process, or start it as a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_support import Atelico, Start
from typer.testing import CliRunner, Result

from atelico.cli.main import app


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's environment with a small context, no configuration and no models but the installed ones."""
    return {
        "ATELICO_N_CTX": "1024",
        "ATELICO_N_THREADS": "1",
        "ATELICO_MODELS": str(tmp_path / "no-models"),
        "ATELICO_CONFIG": "",
    }


@pytest.fixture
def atelico(environment: dict[str, str]) -> Atelico:
    """Run the command in this process."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
        return CliRunner(env=environment).invoke(app, list(arguments), input=stdin)

    return run


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start the command as a process of its own; it does not outlive the test."""
    started: list[subprocess.Popen[bytes]] = []

    def popen(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "atelico.cli.main", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
            **options,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
