"""python -m benchmarks [names...]: measure, print tables and targets, write JSON and a picture to build/bench."""

from __future__ import annotations

import argparse
import importlib
import os
import time
from importlib.util import find_spec
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "500")

from benchmarks import plot, report, written
from benchmarks.machine import machine
from benchmarks.settings import Settings

# What is compared with rivals, in the order of the report.
MEASURED = {
    "speed": "speed",
    "json": "json_output",
    "lanes": "lanes",
    "prefix": "prefix",
    "busy": "busy",
    "frames": "frames",
    "context": "context",
    "memory": "memory",
    "proposers": "proposers",
}
# Programs of their own, with their own tables.
PROGRAMS = (
    *("kernels", "passes", "schemas", "cabi", "server_load"),
    *("exactness", "exact_grid", "near_tie", "whole_json"),
)
# These take hours, so they run only where they are named.
LONG = ("passes", "exactness", "exact_grid", "near_tie", "whole_json")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = (*MEASURED, *PROGRAMS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones, of {', '.join(known)}")
    parser.add_argument("--quick", action="store_true", help="a small run that shows whether everything works")
    parser.add_argument("--threads", type=int, help="threads of every engine (default: physical cores minus one)")
    parser.add_argument("--prompts", type=int, help="prompts per workload, 1 to 10 (default: 2, quick 1)")
    parser.add_argument("--docs", action="store_true", help="write the documents' tables from the last run, and stop")
    options = parser.parse_args()
    if options.docs:
        print("Written:", *written.write())
        return
    if unknown := set(options.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    settings = Settings.make(quick=options.quick, n_threads=options.threads, n_prompts=options.prompts)
    # A quick run leaves the programs out that nobody named: they have no small form.
    names = options.names or (list(MEASURED) if settings.quick else [name for name in known if name not in LONG])
    report.console.print(machine())
    summary: list[report.Target] = []
    for name in names:
        started = time.perf_counter()
        if name in MEASURED:
            summary += _measure(name, settings, started)
        else:
            _program(name, settings, started)
    report.console.rule("summary")
    report.show_targets(summary)
    picture = plot.draw()
    report.console.print(f"Written to {report.FOLDER}" + (f", {picture.name}" if picture else ""))


def _measure(name: str, settings: Settings, started: float) -> list[report.Target]:
    report.console.rule(name)
    module: Any = importlib.import_module(f"benchmarks.{MEASURED[name]}")
    try:
        rows = module.run(settings)
    except Exception:  # the others are still worth their time
        report.console.print_exception(max_frames=8)
        return [report.Target(f"{name}: did not run", None, 0.0)]
    targets: list[report.Target] = module.targets(rows)
    module.show(rows)
    report.show_targets(targets)
    report.save(name, settings, rows, targets, time.perf_counter() - started)
    report.console.print(f"[dim]{name}: {time.perf_counter() - started:.0f} s[/dim]")
    return targets


def _program(name: str, settings: Settings, started: float) -> None:
    report.console.rule(name)
    if find_spec(f"benchmarks.{name}") is None:
        report.console.print(f"benchmarks.{name} does not exist.")
        return
    try:
        rows = importlib.import_module(f"benchmarks.{name}").main()
    except (Exception, SystemExit):  # a program may end itself to say that something is wrong
        report.console.print_exception(max_frames=8)
        return
    if isinstance(rows, list):
        report.save(name, settings, rows, [], time.perf_counter() - started)


if __name__ == "__main__":
    main()
