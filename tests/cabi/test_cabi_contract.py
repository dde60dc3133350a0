"""What atelico.h promises, in every language it may be included from."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from cabi_programs import HERE, ROOT, Library, compile_c, require_compiler, run_tap

HEADER = ROOT / "ffi/cabi/atelico.h"


@pytest.mark.parametrize(
    ("compiler", "standard"),
    [("gcc", "-std=c99"), ("g++", "-std=c++17"), ("clang", "-std=c99"), ("clang++", "-std=c++17")],
)
def test_every_function_keeps_its_promises(
    library: Library, smollm2_file: Path, tmp_path: Path, compiler: str, standard: str
) -> None:
    garbage = tmp_path / "garbage.gguf"
    garbage.write_bytes(os.urandom(5000))
    statements = run_tap(library.compile(HERE / "contract.c", compiler, standard), garbage, smollm2_file)
    assert len(statements) > 75


@pytest.mark.parametrize("standard", ["c99", "c11", "c++11", "c++17", "c++20"])
@pytest.mark.parametrize("family", ["gcc", "clang"])
def test_the_header_alone_compiles_without_warnings(tmp_path: Path, family: str, standard: str) -> None:
    compiler = {"gcc": "g++", "clang": "clang++"}[family] if "++" in standard else family
    source = tmp_path / "only.c"
    source.write_text('#include "atelico.h"\nint main(void) { return ATELICO_OK; }\n')
    flags = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror", f"-I{HEADER.parent}")
    assert compile_c(compiler, [source], tmp_path / "only", f"-std={standard}", *flags).exists()


def test_exactly_the_headers_functions_are_exported(library: Library) -> None:
    declared = set(re.findall(r"^ATELICO_API [^(]*?(atelico_\w+)\(", HEADER.read_text(), re.MULTILINE))
    listing = subprocess.run(
        [require_compiler("nm"), "-D", "--defined-only", str(library.path)], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in listing.stdout.splitlines()}
    assert exported == declared
    assert len(declared) == 11


def test_the_library_links_no_python(library: Library) -> None:
    needed = subprocess.run(
        [require_compiler("readelf"), "-d", str(library.path)], capture_output=True, text=True, check=True
    ).stdout
    assert "libc.so" in needed
    assert "libpython" not in needed
