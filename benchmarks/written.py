"""The tables in the documents, written from the JSON files of the last run between two marks."""

from __future__ import annotations

from pathlib import Path

from benchmarks import exactness, near_tie, passes, proposers, target_table

ROOT = Path(__file__).parents[1]


def write() -> list[str]:
    """Renew all tables that there are results for; returns which."""
    tables = (
        ("README.md", "main targets", target_table.markdown(target_table.SHORT)),
        ("docs/benchmarks.md", "targets", target_table.markdown()),
        ("docs/benchmarks.md", "passes", passes.markdown()),
        ("docs/exactness.md", "noise", near_tie.markdown()),
        ("docs/exactness.md", "texts", exactness.markdown()),
        ("docs/speculation.md", "proposers x workloads", proposers.markdown()),
    )
    found = [(name, mark, table) for name, mark, table in tables if table is not None]
    for name, mark, table in found:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        begin, end = f"<!-- table: {mark} (begin; written by the benchmark) -->\n", f"<!-- table: {mark} (end) -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        path.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    return [f"{name} ({mark})" for name, mark, _ in found]
