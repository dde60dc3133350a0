"""atelico pull against a hub on loopback: the right files, checked, continued, and errors that say what to do."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from atelico.cli.main import app
from atelico.errors import InvalidRequestError, ModelNotFoundError
from atelico.hub.names import RemoteFile, choose_files, parse_name
from atelico.hub.pull import DiskFullError, DownloadError, pull
from atelico.models.catalog import Catalog
from support.hub import Hub, running_hub

Q4 = bytes(range(256)) * 2000
SPLIT = ("big-Q6_K-00001-of-00002.gguf", "big-Q6_K-00002-of-00002.gguf")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    with running_hub() as made:
        monkeypatch.setenv("HF_ENDPOINT", made.url)
        made.files = {
            "README.md": b"# tiny",
            "tiny-Q4_K_M.gguf": Q4,
            "tiny-Q8_0.gguf": Q4 * 2,
            "sub/tiny-F16.gguf": b"f16",
            "mmproj-tiny-Q4_K_M.gguf": b"eye",
            SPLIT[0]: b"one",
            SPLIT[1]: b"two",
        }
        yield made


def test_without_a_quantisation_the_small_good_one_comes(hub: Hub, tmp_path: Path) -> None:
    path = pull("org/tiny-GGUF", tmp_path)
    assert path == tmp_path / "org/tiny-GGUF/tiny-Q4_K_M.gguf"
    assert path.read_bytes() == Q4
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert Catalog(folders=[tmp_path], packaged=()).resolve("org/tiny-GGUF").path == path


@pytest.mark.parametrize(
    ("quant", "files"),
    [("Q8_0", ["tiny-Q8_0.gguf"]), ("q8_0", ["tiny-Q8_0.gguf"]), ("F16", ["sub/tiny-F16.gguf"]), ("Q6_K", list(SPLIT))],
)
def test_the_quantisation_asked_for_comes_with_all_its_parts(
    hub: Hub, tmp_path: Path, quant: str, files: list[str]
) -> None:
    path = pull(f"org/tiny-GGUF:{quant}", tmp_path)
    assert path == tmp_path / "org/tiny-GGUF" / files[0]
    got = {str(file.relative_to(tmp_path / "org/tiny-GGUF")) for file in tmp_path.rglob("*") if file.is_file()}
    assert got == set(files)


def test_what_is_there_is_not_downloaded_again(hub: Hub, tmp_path: Path) -> None:
    first = pull("org/tiny-GGUF", tmp_path)
    assert pull("org/tiny-GGUF", tmp_path) == first
    assert len(hub.ranges) == 1


def test_an_interrupted_download_goes_on_where_it_stopped(hub: Hub, tmp_path: Path) -> None:
    part = tmp_path / "org/tiny-GGUF"
    part.mkdir(parents=True)
    sha = hashlib.sha256(Q4).hexdigest()
    (part / f"tiny-Q4_K_M.gguf.{sha[:12]}.part").write_bytes(Q4[:100_000])
    seen: list[tuple[int, int]] = []
    path = pull("org/tiny-GGUF", tmp_path, lambda _file, done, size: seen.append((done, size)))
    assert path.read_bytes() == Q4
    assert hub.ranges == ["bytes=100000-"]
    assert seen[-1] == (len(Q4), len(Q4))
    assert not list(part.glob("*.part"))


def test_a_part_of_another_version_is_not_continued(hub: Hub, tmp_path: Path) -> None:
    folder = tmp_path / "org/tiny-GGUF"
    folder.mkdir(parents=True)
    (folder / "tiny-Q4_K_M.gguf.0123456789ab.part").write_bytes(b"old")
    assert pull("org/tiny-GGUF", tmp_path).read_bytes() == Q4
    assert hub.ranges == [""]


def test_a_damaged_file_is_removed_and_said(hub: Hub, tmp_path: Path) -> None:
    hub.sha256["tiny-Q4_K_M.gguf"] = "0" * 64
    with pytest.raises(DownloadError, match="checksum"):
        pull("org/tiny-GGUF", tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_too_little_room_is_said_before_anything_is_downloaded(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(DiskFullError, match=r"GB are free"):
        pull("org/tiny-GGUF", tmp_path)
    assert hub.ranges == []


@pytest.mark.parametrize(
    "name", ["tiny", "org/", "/repo", "a/b/c", "org/repo:", "org/../x", "https://x/y", "org/re po"]
)
def test_what_is_no_name_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="org/repo"):
        pull(name, tmp_path)


def test_a_missing_quantisation_lists_what_there_is(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="F16, Q4_K_M, Q6_K, Q8_0"):
        pull("org/tiny-GGUF:Q2_K", tmp_path)


def test_a_missing_repository_names_the_hub(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=hub.url):
        pull("org/nothing", tmp_path)


def test_a_hub_that_is_down_is_an_error_not_a_trace(hub: Hub, tmp_path: Path) -> None:
    hub.status = 500
    with pytest.raises(DownloadError, match="HF_ENDPOINT"):
        pull("org/tiny-GGUF", tmp_path)


def test_a_path_out_of_the_folder_is_never_written() -> None:
    files = [RemoteFile(path, 1, "") for path in ("../evil-Q4_0.gguf", "/etc/evil-Q4_0.gguf", "a\\..\\b-Q4_0.gguf")]
    with pytest.raises(ModelNotFoundError):
        choose_files(parse_name("org/repo"), files)


def test_the_command_prints_the_file_s_path(hub: Hub, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pull", "org/tiny-GGUF", "--into", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "org/tiny-GGUF/tiny-Q4_K_M.gguf")


def test_the_command_s_errors_are_one_line(hub: Hub, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["pull", "org/nothing", "--into", str(tmp_path)])
    assert done.exit_code == 1
    assert done.stderr.startswith("atelico: There is no model org/nothing")
    assert len(done.stderr.strip().splitlines()) == 1
