"""The table of all targets, made from the JSON files of the last run."""

from __future__ import annotations

from collections.abc import Collection

from benchmarks import report
from benchmarks.report import load, number

ORDER = ("speed", "json", "lanes", "prefix", "busy", "frames", "context", "memory", "proposers")


# What the README shows: one line for each thing a game notices, the bad ones too.
SHORT = (
    "plain / bare llama_decode loop, greedy, SmolLM2 Q4_K_M",
    "speed-up, geometric mean over grounded workloads, Gemma 3 270M Q4_K_M",
    "character JSON: speculating / our plain constrained decoding",
    "character JSON: ours / llama-server's constrained decoding",
    "four lanes at once / four in turn, plain",
    "first token, cold / second character with the same world",
    "tokens per second beside one busy process / idle",
    "ours / llama-server, 1 busy",
    "late frames beside our generation, percentage points more than without",
    "MB beyond weights and KV cache",
)


def markdown(wanted: Collection[str] = ()) -> str | None:
    """The targets and what was measured, as a Markdown table under one line about the machine; None without results.

    Args:
        wanted: only these targets; all where it is empty.
    """
    found = [result for name in ORDER if (result := load(name)) is not None]
    if not found:
        return None
    machine, settings = found[0]["machine"], found[0]["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    introduction = (
        f"{machine['processor']}, {machine['cores']} cores, {settings['n_threads']} thread(s); {versions}."
        + (" A quick run: its numbers mean little." if any(result["settings"]["quick"] for result in found) else "")
    )
    targets = [target for result in found for target in result["targets"] if not wanted or target["what"] in wanted]
    rows = (
        (
            target["what"],
            f"{'≥' if target['at_least'] else '≤'} {target['wanted']:g}",
            number(target["measured"]),
            {True: "met", False: "not met", None: "not measured"}[target["met"]],
        )
        for target in targets
    )
    return report.markdown(introduction, ("what", "wanted", "measured", ""), rows)
