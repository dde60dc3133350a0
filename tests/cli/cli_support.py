"""The model the command's tests use, and the types of their fixtures (conftest.py)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from typer.testing import Result

MODEL = "SmolLM2-135M-Instruct"

# Run the command in this process: arguments, and optionally `stdin`.
Atelico = Callable[..., Result]
# Start it as a process of its own: arguments, and options of Popen.
Start = Callable[..., "subprocess.Popen[bytes]"]
