"""The Python packages of a bundle: copied from where they are installed, as bytecode, without what is left out."""

from __future__ import annotations

import shutil
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import atelico
from atelico.bundle.bytecode import compiled
from atelico.bundle.errors import BundleError
from atelico.bundle.llama import LlamaLibraries
from atelico.bundle.parts import ATELICO_LEFT_OUT, LLAMA_CPP_INIT, NEVER, PACKAGES, Package


def chosen(*, remote: bool) -> tuple[Package, ...]:
    """The packages that go into the bundle."""
    return tuple(package for package in PACKAGES if remote or not package.remote)


def copy_packages(folder: Path, *, remote: bool) -> None:
    """Put atelico and the packages it needs into `folder`.

    Raises:
        BundleError: one is not installed.
    """
    folder.mkdir()
    own = Package("atelico", ("atelico",), ATELICO_LEFT_OUT)
    _copy(own, Path(atelico.__file__).resolve().parent.parent, folder)
    _write_version("atelico", folder)
    for package in chosen(remote=remote):
        try:
            site = Path(str(distribution(package.distribution).locate_file("")))
        except PackageNotFoundError:
            raise BundleError(
                f"The package {package.distribution} is not installed.",
                hint="pip install 'atelico[server]'." if package.remote else "make setup",
            ) from None
        _copy(package, site, folder)
        _write_version(package.distribution, folder)


def copy_llama(libraries: LlamaLibraries, libgomp: Path, folder: Path) -> None:
    """Put llama.cpp's libraries, and the OpenMP they share, into the llama_cpp package below `folder`."""
    package = folder / "llama_cpp"
    (package / "lib").mkdir()
    for name, path in {**libraries.files, "libgomp.so.1": libgomp}.items():
        shutil.copyfile(path, package / "lib" / name)
    init = package / "init.tmp"
    init.write_text(LLAMA_CPP_INIT, encoding="utf-8")
    (package / "__init__.pyc").write_bytes(compiled(init, "packages/llama_cpp/__init__.py"))
    init.unlink()


def _copy(package: Package, site: Path, folder: Path) -> None:
    for pattern in package.folders:
        tops = sorted(site.glob(pattern))
        if not tops:
            raise BundleError(f"{site / pattern} is missing, though {package.distribution} is installed.")
        for top in tops:
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                inside = path.relative_to(site).as_posix()
                if path.is_file() and _stays(inside, package):
                    _copy_file(path, inside, folder)


def _stays(inside: str, package: Package) -> bool:
    if any(fnmatchcase(inside, pattern) for pattern in (*NEVER, *package.left_out)):
        return False
    return not package.only or inside in package.only


def _copy_file(path: Path, inside: str, folder: Path) -> None:
    target = folder / inside
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".py":
        target.with_suffix(".pyc").write_bytes(compiled(path, f"packages/{inside}"))
    else:
        shutil.copyfile(path, target)


def _write_version(name: str, folder: Path) -> None:
    """What importlib.metadata answers when a package asks for its own version."""
    installed = version(name)
    info = folder / f"{name.replace('-', '_')}-{installed}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {installed}\n", encoding="utf-8")
