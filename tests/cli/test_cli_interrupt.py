"""Ctrl-C: it cancels the answer, which comes back as far as it was made. Real processes, real signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from typing import IO, Any

import pytest
from cli_support import MODEL, Start

from atelico.cli.interrupt import cancelled_by_ctrl_c
from atelico.job import Job
from atelico.protocol.read import decode_request

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")

# Far more than the test would wait for.
ENDLESS: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Count from one to a thousand, in words."}],
    "max_tokens": 900,
    "temperature": 0,
    "logit_bias": {"2": -100, "0": -100},  # <|im_end|> and <|endoftext|>: it cannot stop by itself
}
SOON_S = 5.0


def finish(process: subprocess.Popen[bytes], seconds: float = SOON_S) -> tuple[bytes, bytes]:
    """The rest of the output; fails where the process goes on."""
    return process.communicate(timeout=seconds)


def wait_for(stream: IO[bytes] | None, text: bytes) -> bytes:
    """Read until `text` has come."""
    assert stream is not None
    read = b""
    while text not in read:
        byte = stream.read(1)
        assert byte, read
        read += byte
    return read


def test_ctrl_c_ends_a_json_stream_in_a_cancelled_answer(start: Start) -> None:
    process = start("chat", "--json", json.dumps({**ENDLESS, "stream": True}))
    assert process.stdout is not None
    first = [process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    out, err = finish(process)
    chunks = [json.loads(line) for line in (b"".join(first) + out).splitlines()]
    assert process.returncode == 130, err.decode()
    assert chunks[-1]["choices"][0]["finish_reason"] == "cancelled"
    assert chunks[-1]["atelico"]["timings"]["decode_ms"] > 0
    assert err == b""


def test_ctrl_c_while_a_long_prompt_is_read_gives_a_cancelled_response(start: Start) -> None:
    long = {**ENDLESS, "messages": [{"role": "user", "content": "Once upon a time. " * 180}]}
    process = start("-v", "chat", "--json", json.dumps(long))
    wait_for(process.stderr, b"loaded ")
    process.send_signal(signal.SIGINT)
    out, err = finish(process)
    assert process.returncode == 130, err.decode()
    answer = json.loads(out)
    assert answer["choices"][0]["finish_reason"] == "cancelled"
    assert answer["usage"]["completion_tokens"] < 900


def test_ctrl_c_leaves_the_text_so_far(start: Start) -> None:
    process = start("chat", "--model", MODEL, "--temperature", "0", "--max-tokens", "900", "Write a long story.")
    assert process.stdout is not None
    first = process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    out, err = finish(process)
    assert process.returncode == 130
    assert (first + out).decode().strip()
    assert b"cancelled" in err
    assert b"Traceback" not in err


def test_ctrl_c_in_a_dialogue_ends_the_answer_and_not_the_program(start: Start) -> None:
    process = start("chat", "--model", MODEL, "--temperature", "0", "--max-tokens", "900", "--stats")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"Write a long story.\n")
    process.stdin.flush()
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    wait_for(process.stderr, b"(cancelled)")
    _, err = process.communicate(b"/quit\n", timeout=60)
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err


def test_answer_that_was_not_interrupted_restores_the_handler() -> None:
    job = Job(decode_request({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}))
    before = signal.getsignal(signal.SIGINT)
    with cancelled_by_ctrl_c(job) as interrupt:
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert not interrupt.pressed


def test_second_ctrl_c_is_a_keyboard_interrupt() -> None:
    cancelled = threading.Event()
    job = Job(
        decode_request({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}),
        on_cancel=lambda _job: cancelled.set(),
    )
    with pytest.raises(KeyboardInterrupt), cancelled_by_ctrl_c(job) as interrupt:
        signal.raise_signal(signal.SIGINT)
        assert cancelled.wait(10)
        assert interrupt.pressed
        signal.raise_signal(signal.SIGINT)
