"""docs/cases.md names tests that exist, and every case of the collections it is about."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "cases.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", TEXT)))


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part.rpartition("/")[2])
def test_a_named_test_exists(path: str, name: str) -> None:
    assert (ROOT / path).is_file()
    assert not name or name in functions(ROOT / path)


def test_every_row_names_a_test() -> None:
    rows = re.findall(r"^\| ([UPS]\d+) \| .+ \| (.+) \|$", TEXT, re.MULTILINE)
    assert len(rows) == len({number for number, _ in rows}) > 100
    for number, covered in rows:
        assert "`tests/" in covered, number


@pytest.mark.parametrize(
    ("letter", "file", "number"),
    [
        ("U", "user-reports.md", r"^(\d+)\. "),
        ("P", "user-reports.md", r"^\| (\d+) \|"),
        ("S", "structured-reports.md", r"^\| (\d+) \|"),
    ],
)
def test_no_case_of_the_collections_is_forgotten(letter: str, file: str, number: str) -> None:
    collection = ROOT.parent / "shared" / "cases" / file
    if not collection.is_file():
        pytest.skip("the collection of cases is not beside the repository")
    cases = re.findall(number, collection.read_text(), re.MULTILINE)
    assert cases
    assert set(cases) == set(re.findall(rf"^\| {letter}(\d+) \|", TEXT, re.MULTILINE))
