#!/usr/bin/env python3
"""Does it cry wolf, does it miss? Runs harness.py on one build against itself, plain and with slowdowns injected.

    .venv/bin/python benchmarks/acceptance.py --plain 10 --inject 0.10 0.10 0.10 0.05 0.05 0.05

A line for each run, then totals: false flags, what was found, which cases lean one way. By hand, not by the tests;
one run of `smoke` takes one to three minutes.  Reports stay in --folder; a run whose report is there is not repeated.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from records import Report  # noqa: E402
from reporters import read_report  # noqa: E402

FLAGS = ("regressed", "improved")


def run(options: argparse.Namespace, name: str, seed: int, inject: float) -> Report:
    """One run of the harness, or its report from an earlier call."""
    folder = options.folder / name
    if not (folder / "report.json").exists():
        command = [sys.executable, str(ROOT / "harness.py"), "-b", options.spec, "--seed", str(seed)]
        command += ["--control", options.build, "--treatment", options.build, "--simple_local_reporter", str(folder)]
        command += ["--inject", str(inject)] if inject else []
        finished = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if finished.returncode not in (0, 1):
            raise SystemExit(finished.stderr)
    return read_report(folder / "report.json")


def told(report: Report, name: str) -> str:
    """A run in one line."""
    injected = [one for one in report.comparisons if one.injected]
    plain = [one for one in report.comparisons if not one.injected]
    found = sum(one.verdict == "regressed" for one in injected)
    false = [f"{one.case} {one.verdict} {one.ratio:.3f}" for one in plain if one.verdict in FLAGS and one.ratio]
    missed = [
        f"{one.case} {one.verdict} {one.ratio:.3f}" for one in injected if one.verdict != "regressed" and one.ratio
    ]
    unchanged = sum(one.verdict == "unchanged" for one in plain)
    cost = report.run["wall_s"] / len(report.comparisons)
    share = report.run["timed_s"] / report.run["wall_s"]
    return (
        f"{name}: {len(false)} false of {len(plain)}, {unchanged} unchanged; found {found} of {len(injected)}; "
        f"{cost:.1f} s a case, {share:.0%} of it timed; {'; '.join(false + missed) or 'nothing to tell'}"
    )


def leanings(reports: list[Report]) -> list[str]:
    """For each case, in how many runs the estimate was above 1."""
    ratios = defaultdict(list)
    for report in reports:
        for one in report.comparisons:
            if one.ratio:
                ratios[one.case].append(one.ratio)
    rows = sorted(ratios.items(), key=lambda item: -abs(sum(ratio > 1 for ratio in item[1]) - len(item[1]) / 2))
    return [f"  {sum(ratio > 1 for ratio in row)} of {len(row)} above 1: {case}" for case, row in rows]


def main() -> None:
    """Run all, print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--plain", type=int, default=10, help="runs without injection, seeds 1, 2, ...")
    parser.add_argument("--inject", type=float, nargs="*", default=[], help="a run for each share")
    parser.add_argument("--folder", type=Path, default=Path("reports/acceptance"))
    options = parser.parse_args()
    plain = []
    for seed in range(1, options.plain + 1):
        plain.append(run(options, f"plain-{seed}", seed, 0.0))
        print(told(plain[-1], f"plain, seed {seed}"), flush=True)
    for number, share in enumerate(options.inject, start=1):
        report = run(options, f"inject-{number}-{share}", 100 + number, share)
        print(told(report, f"+{share:.0%}, seed {100 + number}"), flush=True)
    flags = sum(one.verdict in FLAGS for report in plain for one in report.comparisons)
    print(f"\nplain: {flags} flags in {sum(len(report.comparisons) for report in plain)} comparisons; leaning:")
    print("\n".join(leanings(plain)))


if __name__ == "__main__":
    main()
