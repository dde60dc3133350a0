"""The fenced code blocks of README.md and docs/*.md: what they are, not what they do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A fence at the margin, its language, the text, the closing fence.
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A code block. `where`: file and line of its first line of code."""

    language: str
    text: str
    where: str

    @property
    def commands(self) -> list[str]:
        """The lines of a shell block, continued lines joined, without comments."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def pages() -> list[Path]:
    """The documents of this repository."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(language: str) -> Iterator[Block]:
    """Every block in `language`."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in _FENCE.finditer(text):
            if match[1] == language:
                line = text.count("\n", 0, match.start()) + 2
                yield Block(language, match[2], f"{page.relative_to(ROOT)}:{line}")
