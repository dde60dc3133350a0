"""Contender: an engine in a process of its own, as the benchmarks use it."""

from __future__ import annotations

import queue
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from benchmarks.settings import worker_environment
from benchmarks.wire import Answer, Ask, Call, Load, Result

ROOT = Path(__file__).parents[1]


class ContenderError(RuntimeError):
    """The engine failed, ended or took too long."""


class Contender:
    """Owns the process; a context manager. Only one call runs at a time; `post` and `receive` are its two halves."""

    def __init__(self, engine: str, load: Load | None = None, *, short_spin: bool = True) -> None:
        """`engine`: a module of benchmarks.engines. `short_spin`: see worker_environment."""
        self.engine = engine
        self._load = load
        self._short_spin = short_spin
        self._start()

    def _start(self) -> None:
        # Not a pipe: nobody would read it, and a full pipe stops whoever writes.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", self.engine],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=worker_environment(short_spin=self._short_spin),
            cwd=ROOT,
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        if self._load is not None:
            self.call("load", **msgspec.to_builtins(self._load))

    @staticmethod
    def _read(process: subprocess.Popen[bytes], lines: queue.SimpleQueue[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(b"")

    def post(self, method: str, **arguments: Any) -> None:
        """Start a call without waiting for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(Call(method=method, arguments=arguments)) + b"\n")
        self._process.stdin.flush()

    @property
    def ready(self) -> bool:
        """Whether the posted call has returned."""
        return not self._lines.empty()

    def receive(self, timeout: float = 300.0) -> Any:
        """What the posted call returned.

        Raises:
            ContenderError: it failed, the process ended, or `timeout` seconds passed; the process is then replaced.
        """
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            self.restart()
            raise ContenderError(f"{self.engine}: no answer within {timeout:.0f} s") from None
        if not line:
            log = self._last_words()
            raise ContenderError(f"{self.engine}: the process ended with {self._process.wait()}: {log}")
        result = msgspec.json.decode(line, type=Result)
        if result.error is not None:
            raise ContenderError(f"{self.engine}: {result.error}")
        return result.value

    def call(self, method: str, *, timeout: float = 300.0, **arguments: Any) -> Any:
        """Call a method of the engine's adapter and wait for what it returns; see `receive`."""
        self.post(method, **arguments)
        return self.receive(timeout)

    def generate(self, ask: Ask, timeout: float = 300.0) -> Answer:
        """Answer one request; see `receive`."""
        return msgspec.convert(self.call("generate", timeout=timeout, **msgspec.to_builtins(ask)), Answer)

    def generate_many(self, asks: list[Ask], timeout: float = 300.0) -> list[Answer]:
        """Answer several requests that come at the same time."""
        value = self.call("generate_many", timeout=timeout, asks=msgspec.to_builtins(asks))
        return msgspec.convert(value, list[Answer])

    def restart(self) -> None:
        """A fresh process with the same model."""
        self.close()
        self._start()

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-400:]

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
