"""A folder that runs atelico where no Python is installed: libatelico with its interpreter, packages and llama.cpp.

Made on a developer's machine, from the repository; nothing here is part of the bundle itself. Only Linux x86-64 has
been built and run.
"""

from atelico.bundle.assemble import Bundled, bundle
from atelico.bundle.errors import BundleError
from atelico.bundle.manifest import problems

__all__ = ["BundleError", "Bundled", "bundle", "problems"]
