"""The Unity package compiles as C# 7.2 and works on mono against the real library, with stand-ins for UnityEngine.
Nothing here ran in Unity: its editor, IL2CPP, import and builds cannot be checked without it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cpp.native import ROOT, lib, run, skip_without_model, statements
from unity.mono import compile_cs

sys.path.insert(0, str(ROOT / "bindings" / "unity"))
from write_meta import PACKAGE, assets, meta_of

__all__ = ["lib"]

HERE = Path(__file__).parent
STAND_INS = sorted((HERE / "standins").glob("*.cs"))
UNITY, EDITOR = HERE / "standins" / "UnityEngine.cs", HERE / "standins" / "UnityEditor.cs"
# Fields that only Unity's inspector sets are "never assigned" to a compiler.
SERIALIZED = "-nowarn:649"


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((PACKAGE / folder).rglob("*.cs"))]


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    everything = [
        *sources("Runtime", "Editor", "Tests", "Samples~"),
        *STAND_INS,
        HERE / "Statements.cs",
        HERE / "Program.cs",
    ]
    return compile_cs(everything, tmp_path_factory.mktemp("unity") / "unity.exe", SERIALIZED)


def test_package_works_against_the_real_library(program: Path, lib: Path) -> None:
    skip_without_model()
    assert len(statements(run(["mono", str(program)], LIBRARY_FOLDER=str(lib)))) >= 77


def test_missing_library_is_explained(program: Path) -> None:
    assert statements(run(["mono", str(program), "missing"])) == [
        "a missing library is an error that says where to put it"
    ]


def test_each_assembly_compiles_with_nothing_but_its_references(tmp_path: Path) -> None:
    engine = compile_cs([UNITY], tmp_path / "UnityEngine.dll", "-target:library")
    runtime = compile_cs(sources("Runtime"), tmp_path / "Atelico.dll", "-target:library", f"-r:{engine}", SERIALIZED)
    editor_engine = compile_cs([EDITOR], tmp_path / "UnityEditor.dll", "-target:library", "-nowarn:67")
    references = (f"-r:{engine}", f"-r:{editor_engine}", f"-r:{runtime}", "-target:library", SERIALIZED)
    for folder in ("Editor", "Samples~"):
        assert compile_cs(sources(folder), tmp_path / f"{folder}.dll", *references).exists()


def test_runtime_core_needs_nothing_of_unity(tmp_path: Path) -> None:
    core = [path for path in sources("Runtime") if path.parent.name != "Unity"]
    assert compile_cs(core, tmp_path / "Core.dll", "-target:library").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/unity.md"])
def test_documented_code_compiles(tmp_path: Path, page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    snippets = re.findall(r"^```csharp\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert snippets
    for number, snippet in enumerate(snippets):
        source = tmp_path / f"Snippet{number}.cs"
        source.write_text(snippet, encoding="utf-8")
        options = ("-target:library", SERIALIZED)
        assert compile_cs([source, *sources("Runtime"), UNITY], tmp_path / f"{number}.dll", *options).exists()


def test_every_asset_has_its_meta_file_and_a_guid_of_its_own() -> None:
    wanted = {asset.with_name(asset.name + ".meta"): meta_of(asset) for asset in assets()}
    found = {meta: meta.read_text(encoding="utf-8") for meta in PACKAGE.rglob("*.meta")}
    assert found == wanted, "run bindings/unity/write_meta.py"
    guids = re.findall(r"^guid: (\w{32})$", "".join(found.values()), re.MULTILINE)
    assert len(set(guids)) == len(found) > 30


def test_package_layout_is_consistent() -> None:
    manifest = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    assert manifest["name"] == PACKAGE.name
    assert all((PACKAGE / sample["path"]).is_dir() for sample in manifest["samples"])
    assert (PACKAGE / "Documentation~" / f"{PACKAGE.name}.md").is_file()
    assemblies = {path: json.loads(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.asmdef")}
    names = {assembly["name"] for assembly in assemblies.values()}
    assert {"Atelico", "Atelico.Editor", "Atelico.Tests"} <= names
    for path, assembly in assemblies.items():
        ours = {reference for reference in assembly["references"] if not reference.startswith("Unity")}
        assert ours <= names, path


def test_native_functions_are_those_of_the_header() -> None:
    header = (ROOT / "ffi" / "cabi" / "atelico.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^ATELICO_API [\w *]+?(atelico_\w+)\(", header, re.MULTILINE))
    native = (PACKAGE / "Runtime" / "Native" / "AtelicoNative.cs").read_text(encoding="utf-8")
    assert declared == set(re.findall(r"extern \w+ (atelico_\w+)\(", native))
    version = re.findall(r"ATELICO_ABI_VERSION (\d+)", header)[0]
    assert f"AbiVersion = {version};" in native
    codes = dict(re.findall(r"^    ATELICO_(\w+) = (-?\d+),? +/\*", header, re.MULTILINE))
    results = (PACKAGE / "Runtime" / "AtelicoResult.cs").read_text(encoding="utf-8")
    named = {
        re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper(): code for name, code in re.findall(r"(\w+) = (-?\d+)", results)
    }
    errors = {name: code for name, code in codes.items() if int(code) < 0}
    assert errors
    assert errors.items() <= named.items()


def test_no_native_callback_is_registered() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in sources("Runtime"))
    assert not re.search(r"MonoPInvokeCallback|UnmanagedFunctionPointer|GetFunctionPointerForDelegate", code)
