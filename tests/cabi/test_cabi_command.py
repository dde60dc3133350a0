"""`atelico lib build`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from atelico.cli import lib as command
from atelico.errors import ConfigError


def test_the_command_leaves_library_and_header(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.lib, ["build", "--out", str(tmp_path / "lib")])
    assert result.exit_code == 0, result.output
    assert {path.name for path in (tmp_path / "lib").iterdir()} == {
        "libatelico.so", "libatelico-host.so", "atelico.h", "atelico-home.txt",
    }  # fmt: skip


def test_without_the_repository_it_says_where_the_sources_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a/b/c/lib.py"))
    with pytest.raises(ConfigError) as caught:
        command.find_build_script()
    assert "repository" in caught.value.hint
