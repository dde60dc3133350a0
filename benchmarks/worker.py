"""The process of one engine: answers calls that come as JSON lines on standard input. Run by contender.py.

Every engine has its own process, since two copies of llama.cpp in one would share symbols and thread pools.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any

import msgspec
import psutil

from benchmarks.wire import Answer, Ask, Call, Load, Result


def memory() -> dict[str, float]:
    """Bytes of this process: resident, and of that what is mapped from model files."""
    process = psutil.Process()
    maps = process.memory_maps()
    return {
        "rss": process.memory_info().rss,
        "model": sum(entry.rss for entry in maps if entry.path.endswith((".gguf", ".bin"))),
    }


def main() -> None:
    """Serve calls until standard input ends."""
    # Native code prints to standard output as it likes; the answers need a channel of their own.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    engine: Any = importlib.import_module(f"benchmarks.engines.{sys.argv[1]}").Engine()
    for line in sys.stdin.buffer:
        call = msgspec.json.decode(line, type=Call)
        try:
            result = Result(value=_perform(engine, call))
        except Exception as error:
            traceback.print_exc()
            result = Result(error=f"{type(error).__name__}: {error}")
        answers.write(msgspec.json.encode(result) + b"\n")
        answers.flush()


def _perform(engine: Any, call: Call) -> Any:
    if call.method == "memory":
        return memory()
    if call.method == "load":
        return engine.load(msgspec.convert(call.arguments, Load))
    if call.method == "generate":
        answer: Answer = engine.generate(msgspec.convert(call.arguments, Ask))
        return answer
    if call.method == "generate_many":
        return engine.generate_many(msgspec.convert(call.arguments["asks"], list[Ask]))
    return getattr(engine, call.method)(**call.arguments)


if __name__ == "__main__":
    main()
