"""The tables in the documents, written from the JSON files of the last run between two marks."""

from __future__ import annotations

from pathlib import Path

from benchmarks import exactness, proposers, target_table

ROOT = Path(__file__).parents[1]


def write() -> list[str]:
    """Renew all tables that there are results for; returns the files."""
    tables = {
        "README.md": ("main targets", target_table.markdown(target_table.SHORT)),
        "docs/benchmarks.md": ("targets", target_table.markdown()),
        "docs/exactness.md": ("texts", exactness.markdown()),
        "docs/speculation.md": ("proposers x workloads", proposers.markdown()),
    }
    found = {name: (mark, table) for name, (mark, table) in tables.items() if table is not None}
    for name, (mark, table) in found.items():
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        begin, end = f"<!-- table: {mark} (begin; written by the benchmark) -->\n", f"<!-- table: {mark} (end) -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        path.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
    return list(found)
