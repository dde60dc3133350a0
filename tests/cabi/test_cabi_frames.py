"""No call but the blocking one keeps the game's thread."""

from __future__ import annotations

from cabi_programs import Library, run

# Far above what is measured (benchmarks/cabi.py), because other programs share the machine; a call that waited for the
# interpreter, the model or the GIL would take longer than this.
LONGEST_MS = 50.0


def test_no_call_waits_while_a_model_loads_and_generates(library: Library) -> None:
    lines = [line.split() for line in run(library.program("frames")).splitlines()]
    longest = {name: float(longest) for name, longest, _ in lines}
    assert set(longest) == {
        "create", "load_model", "model_state", "chat_begin", "chat_poll", "chat_cancel", "destroy",
    }  # fmt: skip
    assert {name: ms for name, ms in longest.items() if ms > LONGEST_MS} == {}
