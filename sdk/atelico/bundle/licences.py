"""The licence texts of everything in a bundle, one folder per part."""

from __future__ import annotations

import glob
import json
import shutil
import subprocess
import sysconfig
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from atelico.bundle.llama import LlamaLibraries
from atelico.bundle.packages import chosen
from atelico.bundle.parts import PRIVATE_LIBRARIES

_NAMES: Final = ("licen", "copying", "notice", "copyright")


def copy_licences(repository: Path, llama: LlamaLibraries, folder: Path, *, remote: bool) -> list[str]:
    """Put the licence texts into `folder`. Returns the parts whose text was not found on this machine."""
    found = {"atelico": [repository / "LICENSE"], "python": _python_licence()}
    found["llama.cpp"] = [llama.licence] if llama.licence else []
    for package in chosen(remote=remote):
        found[package.distribution] = _package_licences(package.distribution)
    for library in PRIVATE_LIBRARIES:
        found[library.part] = [Path(p) for pattern in library.licences for p in sorted(glob.glob(pattern))]  # noqa: PTH207  # absolute patterns
    found |= _crate_licences(repository)
    for part, texts in found.items():
        for i, text in enumerate(texts):
            target = folder / part / text.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(text, target.with_name(f"{i}-{text.name}") if target.exists() else target)
    return sorted(part for part, texts in found.items() if not texts)


def _python_licence() -> list[Path]:
    version = sysconfig.get_python_version()
    places = (Path(sysconfig.get_path("stdlib")) / "LICENSE.txt", Path(f"/usr/share/doc/python{version}/copyright"))
    return [path for path in places if path.is_file()][:1]


def _package_licences(name: str) -> list[Path]:
    installed = distribution(name)
    files = [Path(str(file.locate())) for file in installed.files or () if ".dist-info/" in str(file)]
    return [file for file in files if any(word in file.name.lower() for word in _NAMES)]


def _crate_licences(repository: Path) -> dict[str, list[Path]]:
    """Of the Rust crates inside atelico's own extension module; as cargo knows them, so empty without cargo."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    command += ["--filter-platform", "x86_64-unknown-linux-gnu"]
    try:
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return {"rust-crates": []}
    metadata = json.loads(done.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    licences = {}
    for crate in sorted(_linked(metadata["resolve"]["nodes"], packages)):
        package = packages[crate]
        if package["source"] is not None:  # not our own
            root = Path(package["manifest_path"]).parent
            texts = [path for path in sorted(root.iterdir()) if any(word in path.name.lower() for word in _NAMES)]
            licences[f"rust-{package['name']}"] = [path for path in texts if path.is_file()]
    return licences


def _linked(nodes: list[Any], packages: dict[str, Any]) -> set[str]:
    """The crates that end up in the extension module: its normal dependencies and theirs, no build scripts."""
    edges = {
        node["id"]: [
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        for node in nodes
    }  # fmt: skip
    waiting = [id_ for id_, package in packages.items() if package["name"] == "atelico-native"]
    linked: set[str] = set()
    while waiting:
        crate = waiting.pop()
        if crate not in linked and not _is_macro(packages[crate]):
            linked.add(crate)
            waiting += edges.get(crate, [])
    return linked


def _is_macro(package: Any) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])
