"""The kernels for ARM give the reference's bits, on emulated processors with and without the extensions they use."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test_kernels_arm.sh"


@pytest.mark.slow
def test_the_kernels_tests_pass_for_arm() -> None:
    check = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, check=False)
    if check.returncode != 0:
        pytest.skip("missing: " + "; ".join(check.stderr.splitlines()[1:]))
    done = subprocess.run([SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "every_type_and_tier_and_width_has_the_reference_s_bits ... ok" in done.stdout
