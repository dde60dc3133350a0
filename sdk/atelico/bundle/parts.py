"""What goes into a bundle and what is left out: tables only. Whoever reads them is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package that the engine imports.

    Attributes:
        distribution: its name in the package registry, for the version and the licences.
        folders: what it installs, folders and single modules, below site-packages.
        left_out: patterns of paths below site-packages that the engine does without.
        only: if any, patterns of the only Python files that stay.
        remote: needed only to send requests to other servers.
    """

    distribution: str
    folders: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    remote: bool = False


# atelico itself lies in the repository, or in site-packages; it is not in this table.
PACKAGES: Final = (
    Package("cffi", ("_cffi_backend*.so",)),
    Package("jinja2", ("jinja2",)),
    Package(
        "llama_cpp_python",
        ("llama_cpp",),
        # The C API in ctypes. The high-level interface above it (Llama, its server) would bring diskcache and SQLite.
        only=("llama_cpp/llama_cpp.py", "llama_cpp/llama_cpp_ext.py", "llama_cpp/_ggml.py",
              "llama_cpp/_ctypes_extensions.py"),
    ),
    Package("llguidance", ("llguidance",), ("llguidance/cli.py", "llguidance/torch.py",
                                            "llguidance/mlx.py", "llguidance/hf.py", "llguidance/tiktoken.py")),
    Package("markupsafe", ("markupsafe",)),
    Package("msgspec", ("msgspec",)),
    Package(
        "numpy",
        ("numpy", "numpy.libs"),
        ("numpy/f2py/*", "numpy/random/*", "numpy/fft/*", "numpy/polynomial/*", "numpy/distutils/*", "numpy/testing/*",
         "numpy/doc/*", "numpy/_pyinstaller/*", "numpy/_core/include/*", "numpy/_core/lib/*", "numpy/_core/_simd*",
         "numpy/_core/_*_tests*.so", "numpy/ma/*", "numpy/rec/*", "numpy/char/*", "numpy/strings/*", "numpy/core/*",
         "numpy/conftest.py"),
    ),
    Package("platformdirs", ("platformdirs",)),
    Package("psutil", ("psutil",)),
    Package("typing_extensions", ("typing_extensions.py",)),
    Package("anyio", ("anyio",), ("anyio/pytest_plugin.py",), remote=True),
    Package("certifi", ("certifi",), remote=True),
    Package("h11", ("h11",), remote=True),
    Package("httpcore", ("httpcore",), remote=True),
    Package("httpx", ("httpx",), ("httpx/_main.py",), remote=True),
    Package("idna", ("idna",), remote=True),
)  # fmt: skip

# Of our own package: what a game never reaches.
ATELICO_LEFT_OUT: Final = ("atelico/bundle/*", "atelico/cli/*", "atelico/hub/*", "atelico/server/*")

# Left out of every package.
NEVER: Final = ("*/tests/*", "*/test/*", "*/__pycache__/*", "*.pyi", "*/py.typed", "*.pxd", "*.c", "*.h", "*.a")

# Of llama_cpp's own __init__.py, the line that does not import the high-level interface.
LLAMA_CPP_INIT: Final = "from .llama_cpp import *\n"

# Top-level names of the standard library that no part of the engine imports.
STDLIB_LEFT_OUT: Final = frozenset({
    "__phello__", "_aix_support", "_bootsubprocess", "_osx_support", "_pydecimal", "_pyio", "aifc",
    "antigravity", "audioop", "bdb", "cProfile", "cgi", "cgitb", "chunk", "cmd", "code", "codeop", "compileall",
    "crypt", "curses", "dbm", "distutils", "doctest", "ensurepip", "filecmp", "fileinput", "ftplib",
    "idlelib", "imaplib", "imghdr", "lib2to3", "mailbox", "mailcap", "modulefinder", "msilib", "nntplib",
    "nturl2path", "pdb", "pipes", "poplib", "profile", "pstats", "pty", "pyclbr", "pydoc", "pydoc_data",
    "rlcompleter", "sched", "shelve", "site", "smtplib", "sndhdr", "sqlite3", "sunau", "symtable", "tabnanny",
    "telnetlib", "test", "this", "timeit", "tkinter", "trace", "tty", "turtle", "turtledemo",
    "unittest", "venv", "wave", "webbrowser", "wsgiref", "xdrlib", "xml", "xmlrpc", "zipapp",
})  # fmt: skip

# Extension modules of the standard library that the engine imports, directly or through other modules.
EXTENSION_MODULES: Final = frozenset({
    "_asyncio", "_bisect", "_blake2", "_contextvars", "_csv", "_ctypes", "_datetime", "_decimal", "_heapq",
    "_json", "_md5", "_multiprocessing", "_opcode", "_pickle", "_posixshmem", "_posixsubprocess", "_queue",
    "_random", "_sha1", "_sha256", "_sha3", "_sha512", "_socket", "_statistics", "_struct", "_typing",
    "_zoneinfo", "array", "binascii", "cmath", "fcntl", "grp", "math", "mmap", "resource", "select", "syslog",
    "termios", "unicodedata", "zlib",
})  # fmt: skip
REMOTE_EXTENSION_MODULES: Final = frozenset({"_hashlib", "_ssl"})

# What every desktop Linux has, and what must not come twice into a game's process: the C library, and libraries that
# graphics drivers link as well. An older copy of ours, loaded first, would break the driver.
SYSTEM_LIBRARIES: Final = frozenset(
    {
        "ld-linux-x86-64.so.2",
        "libc.so.6",
        "libdl.so.2",
        "libgcc_s.so.1",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
        "libstdc++.so.6",
        "libutil.so.1",
        "libz.so.1",
    }
)
# The system's own, so that its security updates reach the game.
REMOTE_SYSTEM_LIBRARIES: Final = frozenset({"libcrypto.so.3", "libssl.so.3"})


@dataclass(frozen=True, slots=True)
class PrivateLibrary:
    """A library of the build machine that comes along, since players may lack it.

    Attributes:
        soname: its file in the bundle.
        part: whose licence it has.
        licences: patterns of where Linux distributions keep that licence.
    """

    soname: str
    part: str
    licences: tuple[str, ...]


LIBFFI: Final = PrivateLibrary(
    "libffi.so.8", "libffi", ("/usr/share/doc/libffi8*/copyright", "/usr/share/licenses/libffi*/LICENSE*")
)
LIBGOMP: Final = PrivateLibrary(
    "libgomp.so.1",
    "gcc-libgomp",
    ("/usr/share/doc/libgomp1/copyright", "/usr/share/licenses/libgomp*/COPYING*", "/usr/share/licenses/gcc-libs/*"),
)
PRIVATE_LIBRARIES: Final = (LIBFFI, LIBGOMP)
