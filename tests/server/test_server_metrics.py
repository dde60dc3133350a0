"""/metrics, /health and the monitor: the numbers are the answers' own."""

from __future__ import annotations

import re
from types import SimpleNamespace

from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

import atelico
from atelico.decoding.load import LoopLoad, ModelLoad
from atelico.server.metrics import Metrics
from atelico.server.monitor import Monitor
from atelico.speculation.governor import GovernorState
from atelico.speculation.pass_cost import DraftRows
from support.chat import SMOLLM2
from support.server import Running, chat


def samples(server: Running) -> dict[tuple[str, ...], float]:
    """Every sample, keyed by its name and its labels' values in the order of their names."""
    with server.http() as http:
        text = http.get("/metrics").text
    families = text_string_to_metric_families(text)
    found = (sample for family in families for sample in family.samples)
    return {(sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value for sample in found}


def test_an_answer_s_tokens_drafts_and_times_are_counted(server: Running) -> None:
    before = samples(server)
    text = "Repeat this line: the key lies under the third stone, the key lies under the third stone."
    options = {"speculative": {"proposer": "prompt_lookup"}, "atelico": {"governor": "off"}}
    answer = server.post(json=chat(text, max_tokens=24, **options)).json()
    after = samples(server)

    def grown(*key: str) -> float:
        return after[key] - before.get(key, 0.0)

    drafts = answer["atelico"]["speculation"]
    assert drafts["proposed"] > 0
    assert grown("atelico_completion_tokens_total", SMOLLM2) == answer["usage"]["completion_tokens"]
    assert grown("atelico_prompt_tokens_total", SMOLLM2) == answer["usage"]["prompt_tokens"]
    assert grown("atelico_spec_proposed_total", SMOLLM2, "prompt") == drafts["proposed"]
    assert grown("atelico_spec_accepted_total", SMOLLM2, "prompt") == drafts["accepted"]
    assert grown("atelico_first_token_seconds_count", SMOLLM2) == 1
    assert grown("atelico_token_seconds_count", SMOLLM2) == 1
    assert grown("atelico_requests_total", "200", "/v1/chat/completions") == 1
    assert after["atelico_lanes", SMOLLM2] == 4
    assert after["atelico_threads", SMOLLM2] == 1
    assert after["atelico_lanes_busy", SMOLLM2] == 0
    assert after["atelico_queue_length", SMOLLM2] == 0
    assert 0 < after["atelico_kv_tokens", SMOLLM2] <= after["atelico_kv_capacity_tokens", SMOLLM2]


def test_a_request_that_speculates_has_a_governor_in_the_metrics(server: Running) -> None:
    server.post(json=chat("Count to ten.", max_tokens=8, speculative={"proposer": "prompt_lookup"}))
    assert samples(server)["atelico_governor_pause_requests", SMOLLM2, "prompt_lookup"] == 0


def test_the_governor_shows_what_it_has_learned() -> None:
    state = GovernorState(
        costs={2: {DraftRows(full=4): 1.5, DraftRows(blind=3): 1.2}},
        acceptance={"prompt": 0.75},
        pauses={"lookahead": 32},
    )
    load = ModelLoad("m", "ready", 0, LoopLoad(governor=state))
    engine = SimpleNamespace(loads=lambda: [load])
    lines = Metrics(engine).text().decode().splitlines()  # type: ignore[arg-type]
    assert 'atelico_governor_cost{lanes="2",logits="yes",model="m",rows="4"} 1.5' in lines
    assert 'atelico_governor_cost{lanes="2",logits="no",model="m",rows="3"} 1.2' in lines
    assert 'atelico_governor_acceptance{model="m",source="prompt"} 0.75' in lines
    assert 'atelico_governor_pause_requests{model="m",proposer="lookahead"} 32.0' in lines


def test_a_streamed_answer_is_counted_too(server: Running) -> None:
    before = samples(server)
    server.post(json=chat(stream=True))
    key = ("atelico_completion_tokens_total", SMOLLM2)
    assert samples(server)[key] - before.get(key, 0.0) == 8


def test_refusals_are_counted_by_endpoint_and_code(server: Running) -> None:
    before = samples(server)
    server.post(content=b"{")
    with server.http() as http:
        http.get("/one/of/many")
    after = samples(server)
    for key in (("atelico_requests_total", "400", "/v1/chat/completions"), ("atelico_requests_total", "404", "other")):
        assert after[key] - before.get(key, 0.0) == 1


def test_health_names_us_and_our_version(server: Running) -> None:
    server.post(json=chat())
    with server.http() as http:
        answer = http.get("/health").json()
    assert answer == {"status": "ok", "name": "atelico", "version": atelico.__version__, "models": {SMOLLM2: "ready"}}


def test_the_monitor_shows_the_model_s_lanes_and_requests(server: Running) -> None:
    server.post(json=chat())
    console = Console(width=120, record=True, file=None, quiet=False)
    monitor = Monitor(server.state, server.url, console)
    with console.capture() as captured:
        console.print(monitor.view())
    text = captured.get()
    assert SMOLLM2 in text and server.url in text
    assert re.search(r"ready +0/4 +0 ", text)
