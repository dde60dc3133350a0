"""Writes the .meta files of the Unity package: `python bindings/unity/write_meta.py`.

Unity ignores files without one inside a package. Their GUIDs are made from the path, so they stay the same in every
checkout; a file that moves gets a new one. Folders that end with ~ are hidden from Unity and have none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent / "com.atelico.sdk"

_IMPORTERS = {
    ".cs": "MonoImporter:\n  externalObjects: {}\n  serializedVersion: 2\n  defaultReferences: []\n"
    "  executionOrder: 0\n  icon: {instanceID: 0}\n",
    ".asmdef": "AssemblyDefinitionImporter:\n  externalObjects: {}\n",
    "package.json": "PackageManifestImporter:\n  externalObjects: {}\n",
    ".md": "TextScriptImporter:\n  externalObjects: {}\n",
}
_TAIL = "  userData:\n  assetBundleName:\n  assetBundleVariant:\n"


def assets(package: Path = PACKAGE) -> Iterator[Path]:
    """Every file and folder that Unity sees."""
    for path in sorted(package.rglob("*")):
        parts = path.relative_to(package).parts
        if path.suffix != ".meta" and not any(part.endswith("~") or part.startswith(".") for part in parts):
            yield path


def meta_of(asset: Path, package: Path = PACKAGE) -> str:
    """The text of an asset's .meta file.

    Raises:
        KeyError: a kind of file that has no importer here yet.
    """
    name = f"{package.name}/{asset.relative_to(package).as_posix()}"
    guid = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    if asset.is_dir():
        importer = "folderAsset: yes\nDefaultImporter:\n  externalObjects: {}\n"
    else:
        importer = _IMPORTERS[asset.name] if asset.name in _IMPORTERS else _IMPORTERS[asset.suffix]
    return f"fileFormatVersion: 2\nguid: {guid}\n{importer}{_TAIL}"


def write(package: Path = PACKAGE) -> None:
    """Write all of them, and remove those whose asset is gone."""
    wanted = {asset.with_name(asset.name + ".meta"): meta_of(asset, package) for asset in assets(package)}
    for meta in package.rglob("*.meta"):
        if meta not in wanted:
            meta.unlink()
    for meta, text in wanted.items():
        meta.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
