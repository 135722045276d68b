#!/usr/bin/env python3
"""Try real asv suites, each on the release that it belongs to, beside asv itself, and print the table of what runs.

    .venv/bin/python benchmarks/asv_suites.py RESULTS [--only NAME ...] [--limit 60]

Each suite is one ``python -m opduel.commands.suite_coverage --beside_asv``, whose JSON RESULTS keeps; those that are
there aren't tried again. asv_suites.yaml has the suites.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import ROOT
from benchmarks.markdown import table
from opduel.commands.suite_coverage import group

GROUPS = ("ran", "skipped", "failed")
HEAD = (
    "suite",
    "benchmarks: asv, opduel",
    "cases: asv, opduel",
    "sample",
    "asv: ran, skipped, failed",
    "opduel",
    "differ",
)


def try_suite(entry: Mapping[str, Any], answer: Path, limit: str) -> None:
    """Run one suite; ``answer`` gets its JSON."""
    command = [sys.executable, "-m", "opduel.commands.suite_coverage", entry["suite"], entry["build"]]
    command += ["--beside_asv", "--json", str(answer), "--sample", "50", "--limit", limit]
    command += ["--suite_packages", entry["suite_packages"]] if "suite_packages" in entry else []
    command += ["--allow_sdist"] if "allow_sdist" in entry else []
    print(*command[3:5], file=sys.stderr)
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def row(facts: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the cells of a suite's row."""
    asv, ours = facts["asv"], facts["benchmarks_of_suite"]
    theirs, outcomes = asv["outcomes"], facts["outcomes"]
    counts = [Counter(map(group, side.values())) for side in (theirs, outcomes)]
    cells = [", ".join(str(count[kind]) for kind in GROUPS) for count in counts]
    differing = sum(group(outcomes[case]) != group(theirs[case]) for case in outcomes)
    stops = "0; " if asv["problem"] else ""  # asv itself, where a module can't be imported
    finds = f"{stops}{len(asv['benchmarks']):,}, {len(ours):,}"
    cases = f"{stops}{sum(asv['benchmarks'].values()):,}, {sum(ours.values()):,}"
    return facts["build"].replace("==", " "), finds, cases, len(outcomes), *cells, differing


def reasons(name: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield why cases of opduel's were skipped or failed, and each difference from asv, as Markdown."""
    theirs, outcomes = facts["asv"]["outcomes"], facts["outcomes"]
    yield from (f"- {name}: {problem}" for problem in facts["problems"])
    for reason, count in Counter(outcome for outcome in outcomes.values() if outcome != "ran").most_common():
        yield f"- {name}: {count} x {reason}"
    for case, outcome in outcomes.items():
        if group(outcome) != group(theirs[case]):
            yield f"- {name}: **{case}**: {outcome}; asv: {theirs[case]}"


def main() -> None:
    """Try the suites that have no results yet, and print the table and the reasons."""
    suites = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*suites], default=[*suites], metavar="NAME")
    parser.add_argument("--limit", default="60", help="seconds of a case; more on a busy machine")
    settings = parser.parse_args()
    settings.results.mkdir(parents=True, exist_ok=True)
    answers = {}
    for name in settings.only:
        answer = (settings.results / f"{name}.json").absolute()
        if not answer.exists():
            try_suite(suites[name], answer, settings.limit)
        if answer.exists():
            answers[name] = json.loads(answer.read_text(encoding="utf-8"))
    lines = [line for name, facts in answers.items() for line in reasons(name, facts)]
    print("\n".join([*table(HEAD, map(row, answers.values())), "", *lines]))


if __name__ == "__main__":
    main()
