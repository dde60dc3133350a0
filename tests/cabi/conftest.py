"""libatelico built once per run, and C programs compiled against it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cabi_programs import ROOT, Library


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The library as `make lib` builds it."""
    if sys.platform != "linux":
        pytest.skip("libatelico has only been built on Linux")
    folder = tmp_path_factory.mktemp("lib")
    command = [sys.executable, str(ROOT / "ffi/cabi/build.py"), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Library(folder, tmp_path_factory.mktemp("programs"))
