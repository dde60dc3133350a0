"""atelico.hpp compiles as games compile it, and works against the real library."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cpp.native import ROOT, WRAPPER, compile_cpp, lib, require, run, skip_without_model, statements

__all__ = ["lib"]

HERE = Path(__file__).parent
EXAMPLES = sorted((ROOT / "examples" / "cpp").glob("*.cpp"))
DOCS = [ROOT / "docs" / "cpp.md"]
COMPILERS = [("g++", "g++"), ("clang++", "clang")]


@pytest.fixture(params=COMPILERS, ids=lambda pair: pair[0])
def compiler(request: pytest.FixtureRequest) -> str:
    return require(*request.param)


@pytest.mark.parametrize("header", sorted(WRAPPER.rglob("*.hpp")), ids=lambda path: path.name)
def test_header_compiles_alone_without_a_warning(compiler: str, header: Path, tmp_path: Path) -> None:
    source = tmp_path / "alone.cpp"
    # Macros of Unreal and windows.h, defined as late as a game's headers would.
    std = ["atomic", "cmath", "cstdio", "cstdlib", "memory", "mutex", "optional", "string", "variant", "vector"]
    macros = ["check", "verify", "ensure", "PI", "TEXT", "min", "max", "ERROR"]
    lines = [*(f"#include <{name}>" for name in std), *(f"#define {name} @" for name in macros), f'#include "{header}"']
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ("-Wpedantic", "-Wconversion", "-Wundef", "-fsyntax-only")
    compile_cpp(compiler, [source], tmp_path / "unused", *options)
    assert not (tmp_path / "unused").exists()


@pytest.fixture(scope="session")
def json_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("json") / "json"
    sanitize = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    return compile_cpp(require("g++", "g++"), [HERE / "json.cpp"], out, *sanitize)


def test_json_is_right_and_survives_garbage_under_sanitizers(json_program: Path) -> None:
    assert len(statements(run([str(json_program)]))) >= 20


def test_json_is_the_same_in_a_locale_with_a_decimal_comma(json_program: Path, tmp_path: Path) -> None:
    if not Path("/usr/share/i18n/locales/de_DE").exists():
        pytest.skip("no locale definitions to make one from (Debian: apt-get install locales)")
    run([require("localedef", "libc-bin"), "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")])
    found = statements(run([str(json_program), "de_DE.UTF-8"], LOCPATH=str(tmp_path)))
    assert "the locale is set" in found
    assert "numbers are written exactly" in found


def test_wrapper_works_against_the_real_library(lib: Path, tmp_path: Path) -> None:
    skip_without_model()
    compiler = require("g++", "g++")
    program = compile_cpp(compiler, [HERE / "wrapper.cpp"], tmp_path / "wrapper", "-Wconversion", lib=lib)
    assert len(statements(run([str(program)]))) >= 35


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, lib: Path, tmp_path: Path) -> None:
    skip_without_model()
    program = compile_cpp(require("g++", "g++"), [example], tmp_path / example.stem, "-O2", lib=lib)
    output = run([str(program)], ATELICO_N_CTX="512", ATELICO_N_THREADS="1")
    assert "tokens per second" in output


def documented(page: Path) -> list[str]:
    return re.findall(r"^```cpp\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_documented_code_compiles(tmp_path: Path) -> None:
    compiler = require("g++", "g++")
    for page in DOCS:
        snippets = documented(page)
        assert snippets
        for number, snippet in enumerate(snippets):
            source = tmp_path / f"{page.stem}{number}.cpp"
            if "int main" not in snippet:  # statements: what is around them in a game
                snippet = (
                    '#include "atelico.hpp"\nvoid show(std::string_view); void log(const std::string &);\n'
                    "void game(atelico::Engine &engine, atelico::Request &request);\n"
                    "void game(atelico::Engine &engine, atelico::Request &request) {\n"
                    f"(void)engine; (void)request;\n{snippet}}}\n"
                )
            source.write_text(snippet, encoding="utf-8")
            compile_cpp(compiler, [source], tmp_path / "unused", "-fsyntax-only")
