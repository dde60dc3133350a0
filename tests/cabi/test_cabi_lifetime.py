"""Engines and processes that end at awkward moments, many times, from many threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cabi_programs import ROOT, Library, environment, run, run_tap


def test_eight_threads_use_one_engine_at_once(library: Library) -> None:
    assert len(run_tap(library.program("threads"))) == 8


def test_a_build_may_replace_a_library_that_is_in_use(library: Library, tmp_path: Path) -> None:
    used = library.copy(tmp_path / "lib")
    held = used.path.stat().st_ino
    with subprocess.Popen(
        [str(library.program("cycles")), "6"], env=environment(LD_PRELOAD=str(used.path)), stdout=subprocess.PIPE
    ) as program:
        build = subprocess.run([sys.executable, str(ROOT / "ffi/cabi/build.py"), "--out", str(used.folder)])
        assert build.returncode == 0
        output, _ = program.communicate(timeout=240)
    assert used.path.stat().st_ino != held
    assert program.returncode == 0 and b"ok 1 - every cycle answers" in output, output


def test_twenty_cycles_leave_memory_flat(library: Library) -> None:
    assert len(run_tap(library.program("cycles"), 20)) == 3


def test_destroy_and_cancel_at_awkward_moments(library: Library) -> None:
    assert len(run_tap(library.program("ends"), 2)) == 22


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_destroy_and_cancel_at_awkward_moments_fifty_times(library: Library) -> None:
    assert len(run_tap(library.program("ends"), 50, timeout=3500)) == 22


@pytest.mark.parametrize("thread", ["main", "other"])
@pytest.mark.parametrize("milliseconds", [0, 100])
@pytest.mark.parametrize("moment", ["start", "load", "generate", "destroy"])
def test_a_process_exits_cleanly_while_something_runs(
    library: Library, moment: str, milliseconds: int, thread: str
) -> None:
    assert run(library.program("leaving"), moment, milliseconds, thread) == ""


@pytest.mark.parametrize("thread", ["main", "other"])
def test_a_process_exits_cleanly_at_any_moment_of_the_start(library: Library, thread: str) -> None:
    # From the first instruction of the interpreter to the first token, which takes half a second on a free core.
    for milliseconds in range(0, 600, 12):
        assert run(library.program("leaving"), "load", milliseconds, thread) == ""


def test_a_forked_child_exits_without_waiting_for_its_parents_threads(library: Library) -> None:
    assert len(run_tap(library.program("forking"))) == 2
