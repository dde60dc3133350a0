"""What the documents say about fields, errors, options and files is what the code has."""

from __future__ import annotations

import re

import msgspec
import pytest
import typer.main
from markdown_blocks import ROOT, pages

from atelico import errors
from atelico.cli.main import app
from atelico.config import EngineConfig
from atelico.errors import AtelicoError
from atelico.models.packaged import PACKAGED
from atelico.protocol import request, response
from atelico.speculation.registry import plan


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """`text` without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def rows(text: str) -> list[list[str]]:
    """The table rows in `text`, cell by cell."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def named_in_tables(text: str) -> set[str]:
    """Every `name` in the first column of a table."""
    return {name for row in rows(text) for name in re.findall(r"`([^`]+)`", row[0])}


@pytest.mark.parametrize(
    "struct",
    [request.ChatRequest, request.Message, request.Speculative, request.RequestOptions],
    ids=lambda struct: struct.__name__,
)
def test_every_request_field_is_documented(struct: type[msgspec.Struct]) -> None:
    assert set(struct.__struct_fields__) <= named_in_tables(page("requests.md"))


def test_every_field_of_the_atelico_object_is_documented() -> None:
    names = named_in_tables(page("requests.md"))
    for prefix, struct in (("speculation.", response.SpeculationInfo), ("timings.", response.Timings)):
        assert {prefix + field for field in struct.__struct_fields__} <= names
    assert set(response.AtelicoInfo.__struct_fields__) - {"speculation", "timings"} <= names


def test_error_table_is_the_error_family() -> None:
    table = {
        cells[0].strip("`"): (int(cells[2]), int(cells[3]))
        for cells in rows(page("requests.md"))
        if len(cells) == 5 and cells[0].endswith("Error`")
    }
    family = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, AtelicoError)]
    assert table == {kind.__name__: (kind.http_status, kind.c_result) for kind in family if kind is not AtelicoError}


def test_error_codes_are_documented() -> None:
    codes = {
        cells[0].strip("`"): cells[1]
        for cells in rows(page("requests.md"))
        if len(cells) == 5 and cells[0].endswith("Error`")
    }
    assert codes and all(f"`{getattr(errors, name).code}`" in cell for name, cell in codes.items())


def test_every_configuration_field_is_documented() -> None:
    assert set(EngineConfig.__struct_fields__) <= named_in_tables(page("models.md"))


def test_documented_configuration_defaults_are_the_defaults() -> None:
    defaults = {row[0].strip("`"): row[1] for row in rows(page("models.md")) if len(row) == 3}
    numbers = {name: int(value) for name, value in defaults.items() if re.fullmatch(r"-?\d+", value)}
    assert numbers
    assert numbers == {name: getattr(EngineConfig(), name) for name in numbers}


def test_every_packaged_model_is_documented() -> None:
    assert {model.name for model in PACKAGED} <= named_in_tables(page("models.md"))


@pytest.mark.parametrize("name", ["prompt_lookup", "pld", "lookahead", "auto"])
def test_documented_proposers_can_speculate(name: str) -> None:
    assert name in named_in_tables(page("requests.md"))
    assert plan(request.Speculative(proposer=name), max_k=16).reason is None


@pytest.mark.parametrize("name", ["none", "mtp", "nextn", "draft_model"])
def test_documented_proposers_that_a_model_may_lack_say_why(name: str) -> None:
    assert name in named_in_tables(page("requests.md"))
    assert plan(request.Speculative(proposer=name), max_k=16).reason


def test_links_between_documents_lead_somewhere() -> None:
    links = [
        (source, target.partition("#")[0])
        for source in [*pages(), ROOT / "CHANGELOG.md"]
        for target in re.findall(r"\]\(([^)]+)\)", prose(source.read_text(encoding="utf-8")))
        if not target.startswith(("http://", "https://", "#"))
    ]
    assert links
    assert [target for source, target in links if not (source.parent / target).exists()] == []


def test_files_named_in_the_documents_exist() -> None:
    named = {
        name
        for source in pages()
        for name in re.findall(
            r"`((?:sdk|ffi|tests|examples|scripts|benchmarks|docs)/[\w./-]+)`", source.read_text(encoding="utf-8")
        )
    }
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_architecture_names_every_package_and_top_module_of_the_engine() -> None:
    package = ROOT / "sdk" / "atelico"
    text = page("architecture.md")
    parts = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").is_file()}
    parts |= {path.name for path in package.glob("*.py") if path.name != "__init__.py"}
    assert sorted(name for name in parts if name not in text) == []


def test_readme_names_every_command() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert sorted(name for name in commands if f"atelico {name}" not in readme) == []
