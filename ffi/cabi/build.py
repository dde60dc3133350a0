"""Builds libatelico: the mailbox (plain C, what a game links) and the host library (CPython and cffi inside).

    build.py --out DIR

leaves in DIR: libatelico.so, atelico.h, libatelico-host.so, and atelico-home.txt, which says where the interpreter is:
the one that runs this script, with its installed packages. A bundle writes an atelico-home.txt of its own. Only Linux
has been built and run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent

# The plain C of the library, for tests that compile it in another way.
MAILBOX_SOURCES = ("api.c", "mailbox.c", "text.c", "os_posix.c", "os_win32.c")
LOADER_SOURCES = ("home.c", "host_loader.c")

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")

# What Python calls; the names are those of struct host_calls with mailbox_ before them.
_DECLARATIONS = """
struct host_mail {
    int32_t kind;
    int64_t engine;
    int64_t job;
    int64_t ticket;
    const char *text;
    int64_t length;
    void *owner;
};
void mailbox_take(struct host_mail *mail);
void mailbox_release(struct host_mail *mail);
int32_t mailbox_push(int64_t engine, int64_t job, const char *text, int64_t length);
void mailbox_end(int64_t engine, int64_t job, int32_t result, const char *event, int64_t event_length,
                 const char *message);
void mailbox_set_model(int64_t engine, const char *name, int64_t ticket, int32_t state, float progress,
                       const char *message);
void mailbox_fail_engine(int64_t engine, int32_t result, const char *event, int64_t event_length, const char *message);
void mailbox_closed(int64_t engine);
void mailbox_guard_exit(void);
int32_t owns_interpreter(void);
"""

_DEFINITIONS = """
#include "host.h"

extern const struct host_calls *atelico_calls;
extern int atelico_owns_interpreter;

#define mailbox_take(mail) atelico_calls->take(mail)
#define mailbox_release(mail) atelico_calls->release(mail)
#define mailbox_push(engine, job, text, length) atelico_calls->push(engine, job, text, length)
#define mailbox_end(engine, job, result, event, length, message) \\
    atelico_calls->end(engine, job, result, event, length, message)
#define mailbox_set_model(engine, name, ticket, state, progress, message) \\
    atelico_calls->set_model(engine, name, ticket, state, progress, message)
#define mailbox_fail_engine(engine, result, event, length, message) \\
    atelico_calls->fail_engine(engine, result, event, length, message)
#define mailbox_closed(engine) atelico_calls->closed(engine)
#define mailbox_guard_exit() atelico_calls->guard_exit()
#define owns_interpreter() atelico_owns_interpreter
"""

_EMBEDDED_PYTHON = """
from _atelico_cabi import ffi, lib

@ffi.def_extern()
def atelico_enter_host():
    from atelico.cabi.host import run
    run(ffi, lib)
"""


class BuildError(Exception):
    """Something is missing on this machine; the message says what to install."""


@dataclass(frozen=True)
class Interpreter:
    """The CPython that libatelico embeds.

    Attributes:
        libpython: its shared library.
        include: the folder of Python.h.
        path: what sys.path will be.
    """

    libpython: Path
    include: Path
    executable: Path
    prefix: Path
    base_prefix: Path
    path: tuple[Path, ...]


def find_interpreter() -> Interpreter:
    """The interpreter that runs this script, with the packages it can import.

    Raises:
        BuildError: it has no shared library or no headers.
    """
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        raise BuildError(f"{include}/Python.h is missing (Debian: apt-get install python3-dev).")
    return Interpreter(
        libpython=_find_libpython(),
        include=include,
        executable=Path(sys.executable).absolute(),
        prefix=Path(sys.prefix),
        base_prefix=Path(sys.base_prefix),
        # The folder of this script comes first on sys.path and is none of the engine's.
        path=tuple(Path(p) for p in sys.path if p and Path(p).resolve() != HERE),
    )


def _find_libpython() -> Path:
    name = str(sysconfig.get_config_var("INSTSONAME") or "")
    folders = [sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LIBPL"), f"{sys.base_prefix}/lib"]
    if ".so" in name:
        for folder in folders:
            if folder and (Path(folder) / name).is_file():
                return Path(folder) / name
    raise BuildError(
        f"Python {sysconfig.get_python_version()} at {sys.base_prefix} has no shared library (libpython), which "
        "libatelico embeds. Debian: apt-get install python3-dev; pyenv: reinstall it with "
        "PYTHON_CONFIGURE_OPTS=--enable-shared; then remove .venv and run make setup again."
    )


def compile_library(out: Path, sources: list[Path], *flags: str) -> None:
    """Compile C sources into one shared library that exports only what is marked.

    Raises:
        BuildError: no compiler, or it failed.
    """
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise BuildError(f"There is no C compiler {compiler!r} (Debian: apt-get install build-essential).")
    command = [compiler, "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-shared", f"-I{HERE}", "-o", str(out)]
    command += [*map(str, sources), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stderr}")


def build(out: Path) -> Path:
    """Build everything into `out` and return the library's path.

    Raises:
        BuildError: something is missing, or the compiler failed.
    """
    interpreter = find_interpreter()
    out.mkdir(parents=True, exist_ok=True)
    work = out / ".build"
    work.mkdir(exist_ok=True)
    library = out / "libatelico.so"
    compile_library(
        library,
        [HERE / name for name in (*MAILBOX_SOURCES, *LOADER_SOURCES)],
        *WARNINGS,
        f'-DATELICO_VERSION="{version("atelico")}"',
        "-Wl,-soname,libatelico.so",
        "-Wl,-z,nodelete",  # the host's thread runs in it for ever
        "-Wl,-z,defs",
        "-pthread",
        "-ldl",
    )
    compile_library(
        out / "libatelico-host.so",
        [HERE / "python.c", _write_cffi_source(work)],
        f"-I{interpreter.include}",
        "-Wl,-soname,libatelico-host.so",
        "-Wl,-z,defs",
        # Found by its name at run time: libatelico has loaded it by then.
        str(interpreter.libpython),
        "-pthread",
    )
    shutil.copyfile(HERE / "atelico.h", out / "atelico.h")
    (out / "atelico-home.txt").write_text(home_file(interpreter), encoding="utf-8")
    shutil.rmtree(work)
    return library


def _write_cffi_source(folder: Path) -> Path:
    ffi = FFI()
    ffi.cdef(_DECLARATIONS)
    ffi.embedding_api("void atelico_enter_host(void);")
    ffi.set_source("_atelico_cabi", _DEFINITIONS)
    ffi.embedding_init_code(_EMBEDDED_PYTHON)
    source = folder / "_atelico_cabi.c"
    ffi.emit_c_code(str(source))
    return source


def home_file(interpreter: Interpreter, host: str = "libatelico-host.so") -> str:
    """The text of atelico-home.txt; relative paths start at the file's own folder."""
    lines = [
        "# Where libatelico finds its interpreter. Relative paths start at this folder.",
        f"libpython={interpreter.libpython}",
        f"host={host}",
        f"executable={interpreter.executable}",
        f"prefix={interpreter.prefix}",
        f"base_prefix={interpreter.base_prefix}",
        *(f"path={path}" for path in interpreter.path),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Build libatelico for this machine.")
    parser.add_argument("--out", type=Path, required=True, help="folder for libatelico.so and atelico.h")
    arguments = parser.parse_args()
    try:
        library = build(arguments.out)
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    print(f"build: {library}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
