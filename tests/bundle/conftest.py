"""One bundle per run, and a sandbox that holds it."""

from __future__ import annotations

import shutil
import sys
import warnings
from pathlib import Path

import pytest
from bundle_sandbox import ROOT, Sandbox, compile_game, make_sandbox, require_sandbox

from atelico.bundle import Bundled, BundleError, bundle, llama

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Bundled:
    """A bundle: with llama.cpp for all processors where that has been compiled before, else with the installed one."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("bundles are made on Linux, with a C compiler")
    native = not llama.is_built(ROOT)
    if native:
        warnings.warn("llama.cpp has not been compiled for all processors: testing --native", stacklevel=1)
    try:
        return bundle(tmp_path_factory.mktemp("bundle") / "atelico", native=native)
    except BundleError as error:
        if "libpython" in str(error) or "Python.h" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def sandbox(bundled: Bundled, smollm2_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A system without Python that has a game with the bundle."""
    require_sandbox()
    programs = tmp_path_factory.mktemp("programs")
    games = [compile_game(ROOT / "examples/c/blocking.c", bundled.folder, programs / "blocking")]
    games.append(compile_game(HERE / "ask.c", bundled.folder, programs / "ask"))
    root = tmp_path_factory.mktemp("root")
    return make_sandbox(root, bundled.folder, games, smollm2_file, bundled.manifest.requires.libraries)
