"""The server's documents: their commands work as written, and their tables are what the code has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from atelico.cli.main import app
from atelico.remote.options import RemoteOptions
from support.chat import SMOLLM2
from support.server import Running

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def blocks(*pages: str, begin: str) -> list[str]:
    """The ```text blocks that begin so."""
    found = []
    for page in pages:
        text = (ROOT / page).read_text(encoding="utf-8")
        found += [block for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S) if block.startswith(begin)]
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_curl_command_works_as_written(server: Running) -> None:
    commands = blocks("README.md", "docs/server.md", begin="curl ")
    assert commands
    for command in commands:
        here = command.replace("http://127.0.0.1:11434", server.url).replace("curl ", "curl -sS --fail-with-body ", 1)
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["choices"][0]["message"]["content"]


def test_the_openai_snippet_works_as_written(server: Running, capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = blocks("docs/server.md", begin="from openai")
    exec(compile(snippet.replace("http://127.0.0.1:11434", server.url), "docs/server.md", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_every_metric_is_documented_and_every_documented_one_exists(server: Running) -> None:
    server.post(json={"model": SMOLLM2, "messages": [{"role": "user", "content": "x"}], "max_tokens": 3})
    with server.http() as http:
        exposed = set(re.findall(r"^# TYPE (atelico_\w+)", http.get("/metrics").text, re.M))
    exposed = {name for name in exposed if not name.endswith("_created")}
    text = (DOCS / "metrics.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(atelico_\w+)`", row)}
    assert documented == exposed


def test_the_dashboard_uses_metrics_that_exist() -> None:
    dashboard = json.loads((ROOT / "examples/monitoring/grafana-dashboard.json").read_text(encoding="utf-8"))
    used = {
        name.removesuffix("_bucket")
        for panel in dashboard["panels"]
        for target in panel["targets"]
        for name in re.findall(r"atelico_\w+", target["expr"])
    }
    documented = set(re.findall(r"`(atelico_\w+)`", (DOCS / "metrics.md").read_text(encoding="utf-8")))
    assert used and used <= documented


def test_every_option_of_serve_is_documented() -> None:
    options = {
        option
        for parameter in typer.main.get_command(app).commands["serve"].params  # type: ignore[attr-defined]
        for option in parameter.opts
    }
    text = (DOCS / "server.md").read_text(encoding="utf-8")
    assert sorted(option for option in options - {"--help"} if f"`{option}" not in text) == []


def test_every_field_of_a_remote_is_documented() -> None:
    text = (DOCS / "remote.md").read_text(encoding="utf-8")
    assert sorted(name for name in RemoteOptions.__struct_fields__ if f"`{name}`" not in text) == []
