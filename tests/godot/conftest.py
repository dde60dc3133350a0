"""Godot, the compiled extension and a project to run, each made once per run."""

from __future__ import annotations

from pathlib import Path

import pytest
from godot_project import Godot, add_snippets, build_extension, build_library, find_godot, make_project


@pytest.fixture(scope="session")
def godot(tmp_path_factory: pytest.TempPathFactory) -> Godot:
    """Godot with an export template."""
    return find_godot(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def extension(godot: Godot) -> Path:
    """The compiled extension. Needs Godot first: without one there is nothing to compile it for."""
    return build_extension()


@pytest.fixture(scope="session")
def runtime(godot: Godot, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with libatelico."""
    return build_library(tmp_path_factory.mktemp("runtime"))


@pytest.fixture(scope="session")
def project(extension: Path, runtime: Path, smollm2_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test project, ready to run."""
    folder = make_project(tmp_path_factory.mktemp("godot") / "project", extension, runtime, smollm2_file)
    assert add_snippets(folder) >= 4
    return folder
