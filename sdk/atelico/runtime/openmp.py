"""OpenMP's settings, made before llama.cpp loads it."""

from __future__ import annotations

import logging
import os
import sys

logger = logging.getLogger(__name__)

# libgomp spins at barriers for ever by default, which starves llama.cpp (70 to under 3 tokens per second) as soon as
# another process wants a core, and a game always does. 500 rounds keep 90 % of the idle speed.
SPIN_COUNT = "500"


def configure() -> None:
    """Ask libgomp for a short spin, unless the user has set one. Does nothing where libgomp is loaded already."""
    if "llama_cpp" in sys.modules and "GOMP_SPINCOUNT" not in os.environ:
        logger.warning(
            "llama_cpp was imported before atelico, so OpenMP spins at its barriers: decoding collapses beside a busy "
            "process. Import atelico first, or set GOMP_SPINCOUNT=%s in the environment.",
            SPIN_COUNT,
        )
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
