"""llama.cpp for players' machines: the libraries of the installed package, with its CPU kernels compiled once per
generation of processors instead of for this machine alone.

Only the kernels (libggml-cpu) and the registry that picks them (libggml) differ; libllama and libggml-base are compiled
for every x86-64 anyway. The source is that of the installed package, from the package index, checked against the hash
in requirements.lock.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from atelico.bundle.errors import BundleError

# llama.cpp's names of CPU generations, oldest first: what each needs is in ggml/src/CMakeLists.txt. The one with AMX
# (sapphirerapids) is left out: its kernels die with an illegal instruction on some machines that report AMX. Those in
# between are left out to keep the bundle small; a CPU takes the best of these that it can run.
VARIANTS: Final = ("sse42", "haswell", "alderlake", "icelake")
# What the oldest variant needs, and NumPy as well.
BASELINE: Final = "x86-64-v2 (SSE4.2, 2009 and later)"

_SHARED: Final = ("libllama.so", "libggml.so", "libggml.so.0", "libggml-base.so.0")
_PORTABLE: Final = ("libggml.so", "libggml.so.0", *(f"libggml-cpu-{name}.so" for name in VARIANTS))
_NATIVE: Final = (*_SHARED, "libggml-cpu.so.0")


@dataclass(frozen=True, slots=True)
class LlamaLibraries:
    """The library files to ship.

    Attributes:
        files: file name in the bundle -> file.
        variants: CPU generations; empty for libraries that were compiled for this machine alone.
        licence: llama.cpp's own, where its source was there.
    """

    files: dict[str, Path]
    variants: tuple[str, ...]
    licence: Path | None


def installed_folder() -> Path:
    """The folder of the installed llama.cpp libraries."""
    spec = find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise BundleError("llama-cpp-python is not installed.", hint="make setup")
    return Path(spec.origin).parent / "lib"


def native_libraries() -> LlamaLibraries:
    """What is installed: quick to bundle, but for CPUs like this machine's only."""
    folder = installed_folder()
    return LlamaLibraries({name: folder / name for name in _NATIVE}, (), None)


def portable_folder(repository: Path) -> Path:
    """Where the portable libraries of the installed version lie, or will lie."""
    return repository / "build" / "portable" / f"{version('llama_cpp_python')}-{'-'.join(VARIANTS)}"


def is_built(repository: Path) -> bool:
    """Whether the portable libraries are there."""
    return all((portable_folder(repository) / name).is_file() for name in _PORTABLE)


def portable_libraries(repository: Path) -> LlamaLibraries:
    """Libraries for every x86-64 CPU since 2009; compiled the first time, which takes minutes.

    Raises:
        BundleError: a tool or the source is missing, or the compiler failed.
    """
    folder = portable_folder(repository)
    if not is_built(repository):
        build_portable(repository, folder)
    files = {name: installed_folder() / name for name in _SHARED}
    files |= {name: folder / name for name in _PORTABLE}
    return LlamaLibraries(files, VARIANTS, folder / "LICENSE")


def build_portable(repository: Path, folder: Path) -> None:
    """Compile the kernels of every variant and the registry into a new folder; at once complete, or not there.

    Raises:
        BundleError: a tool or the source is missing, or the compiler failed.
    """
    for tool, hint in (("cmake", "cmake"), ("c++", "build-essential")):
        if shutil.which(tool) is None:
            raise BundleError(f"{tool} is missing; it compiles llama.cpp.", hint=f"Debian: apt-get install {hint}.")
    work = folder.with_name(folder.name + ".work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    source = _source(repository, work) / "vendor" / "llama.cpp"
    objects, out = work / "objects", work / "out"
    out.mkdir()
    configure = ["cmake", "-S", str(source), "-B", str(objects), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON"]
    configure += ["-DGGML_BACKEND_DL=ON", "-DGGML_NATIVE=OFF", "-DGGML_CPU_ALL_VARIANTS=ON"]
    configure += [f"-DLLAMA_BUILD_{part}=OFF" for part in ("COMMON", "TOOLS", "EXAMPLES", "TESTS", "SERVER")]
    _run([*configure, "-DCMAKE_INSTALL_RPATH=$ORIGIN", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON"])
    targets = [f"ggml-cpu-{name}" for name in VARIANTS]
    n_jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 2))
    _run(["cmake", "--build", str(objects), "-j", n_jobs, "--target", *targets])
    built = objects / "bin"
    for target in targets:
        shutil.copyfile(built / f"lib{target}.so", out / f"lib{target}.so")
    _build_registry(source / "ggml", built, out)
    shutil.copyfile(source / "LICENSE", out / "LICENSE")
    shutil.rmtree(folder, ignore_errors=True)
    out.rename(folder)
    shutil.rmtree(work)


def _build_registry(ggml: Path, built: Path, out: Path) -> None:
    # CMake would compile all fourteen variants before it links this library of two files.
    library = out / "libggml.so.0"
    command = ["c++", "-std=gnu++17", "-O3", "-DNDEBUG", "-fPIC", "-shared", f"-I{ggml}/include", f"-I{ggml}/src"]
    command += ["-DGGML_BACKEND_DL", "-DGGML_BUILD", "-DGGML_SHARED", "-D_GNU_SOURCE"]
    command += [f"{ggml}/src/ggml-backend-reg.cpp", f"{ggml}/src/ggml-backend-dl.cpp", str(built / "libggml-base.so")]
    _run([*command, "-Wl,-soname,libggml.so.0", "-Wl,-rpath,$ORIGIN", "-ldl", "-o", str(library)])
    shutil.copyfile(library, out / "libggml.so")


def _source(repository: Path, work: Path) -> Path:
    """The unpacked source of the installed llama-cpp-python."""
    requirement = _locked_requirement((repository / "requirements.lock").read_text(encoding="utf-8"))
    (work / "requirement.txt").write_text(requirement, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", "llama-cpp-python", "--require-hashes", "-r", str(work / "requirement.txt")]
    _run([*command, "-d", str(work)])
    archive = next(work.glob("llama_cpp_python-*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(work, filter="data")
    return work / archive.name.removesuffix(".tar.gz")


def _locked_requirement(lock: str) -> str:
    found = re.search(r"^llama-cpp-python==\S+(?: \\\n\s+--hash=\S+)+", lock, re.MULTILINE)
    if found is None:
        raise BundleError("requirements.lock does not name llama-cpp-python with a hash.", hint="make lock")
    return found[0] + "\n"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        lines = "\n".join(done.stdout.splitlines()[-20:])
        raise BundleError(f"{Path(command[0]).name} failed while llama.cpp was compiled:\n{lines}")
