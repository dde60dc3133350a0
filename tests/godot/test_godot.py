"""The binding in a real Godot. What is checked inside the game is in project/suites; here are the runs, and what only
shows from outside: exit codes, leaks, exports, the editor."""

from __future__ import annotations

import configparser
import shutil
from pathlib import Path

import pytest
from godot_project import DEMO, Godot, Output, make_project

from atelico.bundle import bundle


def assert_clean(output: Output) -> None:
    """Godot ended well and complained of nothing."""
    assert output.code == 0, output.text
    assert not output.complaints, output.text


def test_everything_holds_in_a_running_game_twice(
    godot: Godot, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = godot.run("--path", project, "--", "--rounds=2", timeout=600)
    with capfd.disabled():
        print()
        for line in output.text.splitlines():
            if line.startswith("frames: "):
                print(line)
        print(output.text.splitlines()[-1] if output.text else "Godot printed nothing")
    assert not output.broken, "\n".join(output.broken)
    assert len(output.held) > 80 and f"{len(output.held)} passed, 0 failed" in output.text, output.text
    assert_clean(output)


@pytest.mark.parametrize("when", ["unused", "same_frame", "loading", "prefilling", "generating", "awaiting", "asking"])
def test_leaving_the_game_never_hangs_or_crashes(godot: Godot, project: Path, when: str) -> None:
    output = godot.run("--path", project, "--", f"--leave={when}", timeout=60)
    assert f"leaving: {when}" in output.text, output.text
    assert "too late" not in output.text
    assert_clean(output)


def test_godot_is_told_never_to_reload_the_extension(project: Path) -> None:
    manifest = configparser.ConfigParser()
    manifest.read(project / "addons/atelico/atelico.gdextension")
    assert not manifest.getboolean("configuration", "reloadable")


def test_a_missing_library_is_an_error_that_says_what_to_do(godot: Godot, project: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(project, tmp_path / "project", symlinks=True)
    shutil.rmtree(next(copy.glob("addons/atelico/bin/*/atelico-runtime")))
    output = godot.run("--path", copy, "--", "--only=requests", "--leave=unused", timeout=60)
    assert "libatelico.so was not found" in output.text and "atelico bundle" in output.text, output.text
    assert "atelico/runtime/library_folder" in output.text, output.text
    assert output.code == 0, output.text


def test_an_exported_game_runs_without_python(
    godot: Godot, extension: Path, smollm2_file: Path, tmp_path: Path
) -> None:
    if godot.template is None:
        pytest.skip("there is no export template")
    runtime = bundle(tmp_path / "runtime", native=True, for_godot=True)
    assert runtime.manifest.size > 0
    project = make_project(tmp_path / "project", extension, tmp_path / "runtime", smollm2_file)
    program = tmp_path / "game/game.x86_64"
    program.parent.mkdir()
    exported = godot.export(project, program)
    assert exported.code == 0 and program.exists(), exported.text
    beside = sorted(path.name for path in program.parent.iterdir())
    assert beside == ["atelico-runtime", "game.pck", "game.x86_64", "libatelico_godot.so"], beside
    (program.parent / "models").mkdir()
    (program.parent / "models/SmolLM2-135M-Instruct.gguf").symlink_to(smollm2_file)
    shutil.rmtree(tmp_path / "runtime")
    shutil.rmtree(project)
    output = godot.run("--", "--only=exported", program=program, cwd=tmp_path, environment={"PATH": "/nonexistent"})
    assert not output.broken and len(output.held) == 4, output.text
    assert_clean(output)


def test_the_demo_talks_and_gives_a_quest(
    godot: Godot, extension: Path, runtime: Path, smollm2_file: Path, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "demo", extension, runtime, smollm2_file, source=DEMO)
    output = godot.run("--path", project, "--script", "screenshot.gd")
    said = [line.partition(": ") for line in output.text.splitlines()]
    who = [name for name, colon, what in said if colon and what and name in ("You", "Bram", "Quest")]
    assert who == ["You", "Bram", "You", "Bram", "Quest"], output.text
    assert_clean(output)


def test_the_editor_knows_the_classes_and_their_documentation(
    godot: Godot, extension: Path, runtime: Path, smollm2_file: Path, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project", extension, runtime, smollm2_file)
    output = godot.run("--path", project, "--import")
    assert_clean(output)
    out = tmp_path / "classes"
    out.mkdir()
    assert_clean(godot.run("--doctool", out, "--gdextension-docs", cwd=project))
    chat = (out / "doc_classes/AtelicoChat.xml").read_text()
    for typed in ('<return type="AtelicoRequest" />', 'name="delta"', '<return type="Dictionary[]" />'):
        assert typed in chat, typed
    engine = (out / "doc_classes/AtelicoEngine.xml").read_text()
    assert '<param index="0" name="request" type="Dictionary" />' in engine
    # The editor gets the texts from the extension itself; doctool does not write them.
    assert b"A character that talks: keeps its dialogue" in extension.read_bytes()
