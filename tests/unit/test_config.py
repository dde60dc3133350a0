"""The configuration: file, environment, defaults, and how mistakes are named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atelico import config
from atelico.config import EngineConfig, load_config
from atelico.errors import ConfigError


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """A configuration file that is not there yet, and no file in the user's folder."""
    return tmp_path / "atelico.toml"


@pytest.fixture(autouse=True)
def no_user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "default_config_path", lambda: tmp_path / "nobody" / "config.toml")


def test_without_any_file_the_defaults_apply() -> None:
    assert load_config(environ={}) == EngineConfig()


def test_a_file_sets_fields(write: Path) -> None:
    write.write_text('n_ctx = 2048\nmodel_folders = ["a", "b"]\n[aliases]\nnpc = "SmolLM2-135M-Instruct"\n')
    loaded = load_config(write, environ={})
    assert loaded.n_ctx == 2048
    assert loaded.model_folders == ["a", "b"]
    assert loaded.aliases == {"npc": "SmolLM2-135M-Instruct"}
    assert loaded.n_batch == EngineConfig().n_batch


def test_the_environment_names_a_file_and_an_argument_wins_over_it(write: Path, tmp_path: Path) -> None:
    write.write_text("n_ctx = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("n_ctx = 2\n")
    assert load_config(environ={"ATELICO_CONFIG": str(write)}).n_ctx == 1
    assert load_config(other, environ={"ATELICO_CONFIG": str(write)}).n_ctx == 2


def test_the_users_own_file_is_read_where_nobody_names_one(write: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write.write_text("max_queue = 3\n")
    monkeypatch.setattr(config, "default_config_path", lambda: write)
    assert load_config(environ={}).max_queue == 3


def test_variables_override_single_fields(write: Path) -> None:
    write.write_text("n_ctx = 2048\nn_threads = 1\n")
    loaded = load_config(write, environ={"ATELICO_N_CTX": "512", "ATELICO_N_GPU_LAYERS": "-1"})
    assert (loaded.n_ctx, loaded.n_threads, loaded.n_gpu_layers) == (512, 1, -1)


@pytest.mark.parametrize("value", ["", "many", "1.5", "0x10"])
def test_a_variable_that_is_no_number_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match="ATELICO_N_THREADS"):
        load_config(environ={"ATELICO_N_THREADS": value})


@pytest.mark.parametrize("value", ["-5", "99999999999"])
def test_a_variable_out_of_range_is_named(value: str) -> None:
    with pytest.raises(ConfigError, match=r"ATELICO_N_CTX.*n_ctx"):
        load_config(environ={"ATELICO_N_CTX": value})


@pytest.mark.parametrize("by_environment", [False, True])
def test_a_named_file_that_is_missing_is_an_error(write: Path, by_environment: bool) -> None:
    with pytest.raises(ConfigError, match=r"atelico\.toml cannot be read"):
        if by_environment:
            load_config(environ={"ATELICO_CONFIG": str(write)})
        else:
            load_config(write, environ={})


@pytest.mark.parametrize("text", [b"n_ctx = ", b"= 5", b"n_ctx = 1\nn_ctx = 2", b"\xff\xfe", b"[aliases\n"])
def test_what_is_no_toml_is_an_error(write: Path, text: bytes) -> None:
    write.write_bytes(text)
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(write, environ={})


def test_an_unknown_field_is_an_error_that_lists_the_known_ones(write: Path) -> None:
    write.write_text("n_ctxx = 5\n")
    with pytest.raises(ConfigError, match="n_ctxx") as caught:
        load_config(write, environ={})
    assert "n_ctx," in caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        'n_ctx = "big"',
        "n_ctx = -1",
        "n_ctx = 1.5",
        "n_ctx = 3000000000",
        "n_batch = 0",
        "n_batch = 70000",
        "n_gpu_layers = -2",
        "max_draft = 257",
        "max_queue = 0",
        "aliases = 5",
        'aliases = {npc = ["a"]}',
        'model_folders = "a"',
        "cache_dir = 1979-05-27",
    ],
)
def test_a_wrong_type_or_range_names_the_field(write: Path, line: str) -> None:
    write.write_text(line + "\n")
    with pytest.raises(ConfigError, match=line.split()[0]):
        load_config(write, environ={})


def test_folders_of_the_environment_come_first_and_home_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATELICO_MODELS", os.pathsep.join(["/one", "", "~/two"]))
    folders = EngineConfig(model_folders=["three"]).folders()
    assert folders[:3] == [Path("/one"), Path("~/two").expanduser(), Path("three")]
    assert folders[-1].name == "models"


def test_the_cache_folder_is_the_users_own_unless_configured(tmp_path: Path) -> None:
    assert EngineConfig(cache_dir=str(tmp_path)).cache_folder() == tmp_path
    assert EngineConfig().cache_folder().name == "atelico"
