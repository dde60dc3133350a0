"""The plugin's sources compile and their logic runs, with stand-ins for Unreal. Nothing here ran in Unreal: its header
tool, its build tool, reflection, Blueprints and packaging cannot be checked without it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cpp.native import ROOT, compile_cpp, lib, require, run, skip_without_model, statements
from unity.mono import compile_cs
from unreal.header_tool import RuleBrokenError, generate

__all__ = ["lib"]

HERE = Path(__file__).parent
PLUGIN = ROOT / "bindings" / "unreal"
MODULE = PLUGIN / "Source" / "AtelicoRuntime"
PRIVATE = sorted((MODULE / "Private").glob("*.cpp"))


@pytest.fixture(scope="session")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    for header in sorted((MODULE / "Public").glob("*.h")):
        generate(header, folder)
    return folder


def includes(generated: Path) -> list[str]:
    ours = (MODULE / "Public", MODULE / "Private", HERE / "standins", HERE.parent / "cpp")
    return [f"-I{path}" for path in (generated, *ours)]


def test_plugin_logic_works_against_the_real_library(generated: Path, lib: Path, tmp_path: Path) -> None:
    skip_without_model()
    sources = [HERE / "plugin.cpp", *PRIVATE]
    program = compile_cpp(require("g++", "g++"), sources, tmp_path / "plugin", *includes(generated), lib=lib)
    assert len(statements(run([str(program)]))) >= 29


# g++ with C++17 is what the program above is compiled with.
@pytest.mark.parametrize(
    ("compiler", "standard"), [(("g++", "g++"), "c++20"), (("clang++", "clang"), "c++17")], ids=["g++20", "clang++17"]
)
def test_sources_compile_without_a_warning(
    compiler: tuple[str, str], standard: str, generated: Path, tmp_path: Path
) -> None:
    options = [*includes(generated), f"-std={standard}", "-fsyntax-only"]
    if standard == "c++20":  # as on Windows, where the module loads the library by itself
        options.append('-DATELICO_LIBRARY_NAME=TEXT("atelico.dll")')
    compile_cpp(require(*compiler), PRIVATE, tmp_path / "unused", *options)
    assert len(PRIVATE) >= 5


def test_documented_code_compiles(generated: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "unreal.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert snippets
    for number, snippet in enumerate(snippets):
        source = tmp_path / f"snippet{number}.cpp"
        source.write_text(snippet, encoding="utf-8")
        compile_cpp(require("g++", "g++"), [source], tmp_path / "unused", *includes(generated), "-fsyntax-only")


def test_build_rules_compile_and_stage_every_file_of_the_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "python").mkdir(parents=True)
    for name in ("libatelico.so", "atelico.h", "python/stdlib.zip"):
        (bundle / name).write_text(name, encoding="utf-8")
    sources = [MODULE / "AtelicoRuntime.Build.cs", HERE / "BuildTool.cs"]
    program = compile_cs(sources, tmp_path / "rules.exe")
    output = run(["mono", str(program), str(PLUGIN)], ATELICO_BUNDLE=str(bundle))
    staged = re.findall(r"^stage NonUFS (.*)$", output, re.MULTILINE)
    assert sorted(staged) == sorted(str(path) for path in bundle.rglob("*") if path.is_file())
    assert f"link {bundle / 'libatelico.so'}" in output
    assert f"rpath {bundle}" in output
    missing = run(["mono", str(program), str(PLUGIN)], ATELICO_BUNDLE=str(tmp_path / "nowhere"))
    assert "refused: atelico: atelico.h is not in" in missing
    assert "atelico bundle --for unreal" in missing


def test_descriptor_names_the_module_and_every_public_class_is_reflected() -> None:
    descriptor = json.loads((PLUGIN / "Atelico.uplugin").read_text(encoding="utf-8"))
    assert [module["Name"] for module in descriptor["Modules"]] == [MODULE.name]
    assert f"class {MODULE.name} " in (MODULE / f"{MODULE.name}.Build.cs").read_text(encoding="utf-8")
    headers = "".join(path.read_text(encoding="utf-8") for path in (MODULE / "Public").glob("*.h"))
    classes = set(re.findall(r"^class \w+_API (U\w+)", headers, re.MULTILINE))
    assert {"UAtelicoSubsystem", "UAtelicoChatComponent", "UAtelicoChatAsyncAction", "UAtelicoSettings"} <= classes


def test_module_macro_does_not_collide_with_the_library_header() -> None:
    assert MODULE.name.upper() + "_API" != "ATELICO_API"


@pytest.mark.parametrize(
    "text",
    [
        '#include "CoreMinimal.h"\n\nUCLASS()\nclass UThing : public UObject\n{\n\tGENERATED_BODY()\n};\n',
        '#include "Thing.generated.h"\nUCLASS()\nclass UThing : public UObject\n{\n};\n',
        '#include "Thing.generated.h"\nUSTRUCT()\nstruct Thing\n{\n\tGENERATED_BODY()\n};\n',
    ],
    ids=["no include", "no body", "wrong letter"],
)
def test_header_tool_refuses_broken_headers(text: str, tmp_path: Path) -> None:
    header = tmp_path / "Thing.h"
    header.write_text(text, encoding="utf-8")
    with pytest.raises(RuleBrokenError):
        generate(header, tmp_path)
