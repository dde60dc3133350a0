"""The same request gives the same text and usage in process and through the C library."""

from __future__ import annotations

import json
import subprocess

from cabi_programs import Library

from support.chat import Chat
from support.same_answer import REQUESTS, essence


def test_the_c_library_answers_as_the_engine_does(library: Library, smol: Chat) -> None:
    lines = "".join(json.dumps(request) + "\n" for request in REQUESTS)
    done = subprocess.run([str(library.program("ask"))], input=lines, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    through_c = [essence(json.loads(line)) for line in done.stdout.splitlines()]
    in_process = [
        essence(smol.engine.chat_completion(json.dumps(request).encode()).model_dump()) for request in REQUESTS
    ]
    assert len(through_c) == 20
    assert through_c == in_process
