"""atelico: a small language model inside a game."""

# First of all imports: it sets OpenMP's environment, which the C library reads only once.
import atelico.runtime  # noqa: F401  # isort: skip
from atelico.client import Atelico
from atelico.config import EngineConfig
from atelico.engine import Engine
from atelico.errors import AtelicoError
from atelico.job import Job

__all__ = ["Atelico", "AtelicoError", "Engine", "EngineConfig", "Job", "__version__"]

__version__ = "0.1.0"
