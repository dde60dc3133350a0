"""The table of all targets, made from the JSON files of the last run."""

from __future__ import annotations

from benchmarks.report import load, number

ORDER = ("speed", "json", "lanes", "prefix", "busy", "frames", "context", "memory", "proposers")


def markdown() -> str:
    """The targets and what was measured, as a Markdown table under one line about the machine."""
    found = [result for name in ORDER if (result := load(name)) is not None]
    if not found:
        return "No results yet: run `python -m benchmarks`."
    machine, settings = found[0]["machine"], found[0]["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    lines = [
        f"{machine['processor']}, {machine['cores']} cores, {settings['n_threads']} thread(s); {versions}."
        + (" A quick run: its numbers mean little." if any(result["settings"]["quick"] for result in found) else ""),
        "",
        "| what | wanted | measured | |",
        "|---|---|---|---|",
    ]
    for result in found:
        for target in result["targets"]:
            sign = "≥" if target["at_least"] else "≤"
            verdict = {True: "met", False: "not met", None: "not measured"}[target["met"]]
            lines.append(
                f"| {target['what']} | {sign} {target['wanted']:g} | {number(target['measured'])} | {verdict} |"
            )
    return "\n".join(lines)
