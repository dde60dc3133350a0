"""Writes the .generated.h files that Unreal's header tool would write, as far as the sources use them: `Super`.

It stands in for that tool in tests and checks the few rules of it that are easy to break by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

_TYPE = re.compile(r"^(?:class|struct)\s+(?:\w+_API\s+)?(\w+)(?:\s*:\s*public\s+(\w+))?\s*$")
_MARK = re.compile(r"^\s*(UCLASS|USTRUCT)\(")


class RuleBrokenError(ValueError):
    """A header that Unreal's header tool would refuse."""


def generate(header: Path, out: Path) -> None:
    """Write `out`/NAME.generated.h for `header`.

    Raises:
        RuleBrokenError: a body without its mark, or the include is missing or not the last one.
    """
    lines = header.read_text(encoding="utf-8").splitlines()
    includes = [line for line in lines if line.startswith("#include")]
    reflected = any(_MARK.match(line) or line.startswith("UENUM(") for line in lines)
    if not reflected:
        return
    if includes[-1] != f'#include "{header.stem}.generated.h"':
        raise RuleBrokenError(f"{header.name}: {header.stem}.generated.h must be the last include")
    file_id = f"FID_{header.stem}_h"
    text = [f"#undef CURRENT_FILE_ID\n#define CURRENT_FILE_ID {file_id}"]
    name = parent = mark = None
    for number, line in enumerate(lines, start=1):
        if found := _MARK.match(line):
            mark, name = found[1], None
        elif mark and (found := _TYPE.match(line)):
            name, parent = found[1], found[2]
            if name[0] not in ("F" if mark == "USTRUCT" else "UA"):
                raise RuleBrokenError(f"{header.name}:{number}: {name} has the wrong first letter for {mark}")
        elif line.strip() == "GENERATED_BODY()":
            if name is None:
                raise RuleBrokenError(f"{header.name}:{number}: GENERATED_BODY without {mark or 'UCLASS'}")
            body = f"public: using ThisClass = {name}; using Super = {parent}; private:" if parent else ""
            text.append(f"#define {file_id}_{number} {body}")
            name = mark = None
    if mark:
        raise RuleBrokenError(f"{header.name}: {mark} {name} without GENERATED_BODY")
    (out / f"{header.stem}.generated.h").write_text("\n".join(text) + "\n", encoding="utf-8")
