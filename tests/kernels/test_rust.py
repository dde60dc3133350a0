"""The kernels against a scalar reference, for every set of instructions that this processor can run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_the_kernels_have_the_reference_s_bits() -> None:
    done = subprocess.run(
        ["cargo", "test", "--release", "--locked", "-p", "atelico-kernels"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "every_type_and_tier_and_width_has_the_reference_s_bits ... ok" in done.stdout
