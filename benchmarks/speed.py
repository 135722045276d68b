#!/usr/bin/env python3
"""Measure one run from command to exit with warm caches, and where its time goes.

    .venv/bin/python benchmarks/speed.py --runs 3 [--spec smoke] [--time_budget 60]

The script runs harness.py on one build against itself, passes unknown options to it, and splits the command's wall
time: before and after the run (interpreter, imports, spec, builds, reports), and the run's own parts (``spent_s``).
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.records import Report  # noqa: E402
from opduel.reporters import read_report  # noqa: E402


def timed_run(build: str, spec: str, seed: int, options: Sequence[str], folder: Path) -> tuple[float, Report]:
    """Return the seconds from command to exit, and the report, which is written to ``folder``."""
    command = [sys.executable, str(ROOT / "harness.py"), "-b", spec, "--seed", str(seed), "--busy_host", "report"]
    command += ["--control", build, "--treatment", build, "--simple_local_reporter", str(folder), *options]
    start = time.monotonic()
    process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - start
    if process.returncode not in (0, 1):
        raise SystemExit(process.stderr)
    return seconds, read_report(folder / "report.json")


def print_run(seed: int, seconds: float, report: Report) -> None:
    """Print the cost of a case, and the parts of the run's time."""
    run, cases = report.run, len(report.comparisons)
    print(f"\nrun {seed}: {cases} cases, {run.rounds} process pairs, {seconds:.1f} s from command to exit, ", end="")
    print(f"{seconds / cases:.2f} s a case; {report.count('unchanged')} unchanged")
    wall_s = run.wall_s or 0.0
    parts = {**run.spent_s, "deciding": wall_s - sum(run.spent_s.values())}
    parts["before and after the run"] = seconds - wall_s
    for name, part_s in parts.items():
        print(f"  {name:28s} {part_s:6.1f} s  {part_s / seconds:4.0%}")


def main() -> None:
    """Run harness.py several times, and print the parts of each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--runs", type=int, default=3)
    settings, options = parser.parse_known_args()
    for seed in range(1, settings.runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            print_run(seed, *timed_run(settings.build, settings.spec, seed, options, Path(folder)))


if __name__ == "__main__":
    main()
