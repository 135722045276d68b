#!/usr/bin/env python3
"""One run from command to verdict with warm caches, and where its time goes.

    .venv/bin/python benchmarks/speed.py --runs 3 [--spec smoke] [--time_budget 60]

Runs harness.py as a user would, on one build against itself, and splits the command's wall time: before the first
process pair (interpreter, imports, spec, builds), the run's own parts (``spent_s`` in the report), and after it.
Shares of the whole are what is worth comparing; seconds are of this machine on this day.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.records import Report  # noqa: E402
from opduel.reporters import read_report  # noqa: E402


def timed_run(options: argparse.Namespace, seed: int, folder: Path) -> tuple[float, Report]:
    """Seconds from command to exit, and the report."""
    command = [sys.executable, str(ROOT / "harness.py"), "-b", options.spec, "--seed", str(seed), *options.more]
    command += ["--control", options.build, "--treatment", options.build, "--simple_local_reporter", str(folder)]
    command += ["--busy_host", "report"]
    began = time.monotonic()
    finished = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - began
    if finished.returncode not in (0, 1):
        raise SystemExit(finished.stderr)
    return seconds, read_report(folder / "report.json")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--runs", type=int, default=3)
    options, options.more = parser.parse_known_args()
    for seed in range(1, options.runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            seconds, report = timed_run(options, seed, Path(folder))
        run = report.run
        cases = len(report.comparisons)
        print(
            f"\nrun {seed}: {cases} cases, {run['rounds']} process pairs, {seconds:.1f} s from command to exit, ",
            end="",
        )
        print(f"{seconds / cases:.2f} s a case; {report.count('unchanged')} unchanged")
        parts = {**run["spent_s"], "deciding": run["wall_s"] - sum(run["spent_s"].values())}
        parts["before and after the run"] = seconds - run["wall_s"]
        for name, spent in parts.items():
            print(f"  {name:28s} {spent:6.1f} s  {spent / seconds:4.0%}")


if __name__ == "__main__":
    main()
