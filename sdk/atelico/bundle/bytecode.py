"""Python files as bytecode without a source beside it, so that a bundle names no folder of the machine that made it."""

from __future__ import annotations

import py_compile
import tempfile
from pathlib import Path

from atelico.bundle.errors import BundleError


def compiled(source: Path, name: str) -> bytes:
    """The .pyc of a file, for any time and place. `name` is what tracebacks show.

    Raises:
        BundleError: it is not Python of this version.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "module.pyc"
        try:
            py_compile.compile(
                str(source),
                cfile=str(target),
                dfile=name,
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        except py_compile.PyCompileError as error:
            raise BundleError(f"{source} cannot be compiled: {error.msg.strip()}") from None
        return target.read_bytes()
