"""Which file drafts for a model: the one the configuration names, else one beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from atelico.errors import ModelNotFoundError
from atelico.models.catalog import Catalog


def find_drafter(target: Path, drafters: Mapping[str, str], catalog: Catalog) -> Path | None:
    """The drafter of the model file `target`; None where there is none.

    Args:
        drafters: model name -> name of its drafter, as the configuration has them.

    Raises:
        ModelNotFoundError: the configuration names a drafter that does not exist.
    """
    for name, drafter in drafters.items():
        try:
            found = catalog.resolve(name).path
        except ModelNotFoundError:
            continue  # a drafter for a model that is not here
        if found == target:
            return catalog.resolve(drafter).path
    stem = target.stem
    beside = sorted(path for path in target.parent.glob("*.gguf") if path.stem.lower() == f"{stem.lower()}-draft")
    return beside[0] if beside else None
