"""The mailbox under stress and sanitizers, with a host that needs no Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cabi_programs import HERE, ROOT, WARNINGS, compile_c, require_compiler, run_tap

SOURCES = [
    *(ROOT / "ffi/cabi" / name for name in ("api.c", "mailbox.c", "text.c", "os_posix.c")),
    HERE / "stub_host.c",
    HERE / "stress.c",
]


def _program(folder: Path, sanitizers: str) -> Path:
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    flags = [f"-fsanitize={sanitizers}"] if sanitizers else []
    command = [require_compiler("gcc"), *flags, str(probe), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this gcc has no -fsanitize={sanitizers}")
    return compile_c(
        "gcc",
        SOURCES,
        folder / "stress",
        "-std=gnu11",
        "-g",
        "-O1",
        *flags,
        *WARNINGS,
        '-DATELICO_VERSION="0.0"',
        f"-I{ROOT / 'ffi/cabi'}",
        f"-I{HERE}",
        "-pthread",
    )


@pytest.mark.parametrize("sanitizers", ["address,undefined,leak", "thread"])
def test_the_mailbox_is_clean_under_stress(tmp_path: Path, sanitizers: str) -> None:
    assert len(run_tap(_program(tmp_path, sanitizers), 1000)) == 5


@pytest.mark.slow
def test_the_mailbox_is_clean_under_valgrind(tmp_path: Path) -> None:
    valgrind = require_compiler("valgrind")
    command = [valgrind, "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]
    done = subprocess.run(
        [*command, str(_program(tmp_path, "")), "100"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
