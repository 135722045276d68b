"""python -m opduel.commands.suite_coverage: runs every case of an asv suite once on a build, and says what ran, was
skipped or failed, and why."""

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opduel.commands.entry import DONE, log, run_command
from opduel.commands.option_types import path, seconds
from opduel.commands.options import Parser, read_options
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds import BuildCache, resolve_build
from opduel.harness.other_runs.smoke_check import SmokeCheck, smoke_check
from opduel.records.measurement import SKIPPED
from opduel.reporters.stream import print_result

EVERY = 100  # cases between two lines of progress
REASONS = 12  # shown; the JSON has all
LONGEST = 110  # characters of one


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("opduel.commands.suite_coverage", lambda: _coverage(arguments))


def coverage_parser() -> Parser:
    """The parser of all its options."""
    parser = Parser(prog="python -m opduel.commands.suite_coverage", description=__doc__)
    add = parser.options()
    add("suite SUITE", "the suite, as in harness.py's --suite")
    add("build BUILD", "the build to try it on: requirements, an environment or an interpreter")
    add("--bench REGEX", "only benchmarks whose name, with parameters, matches; repeatable", action="append")
    add("--every N", "only every Nth case", type=int, default=1)
    add("--limit SECONDS", "longest time for one case (default: 60)", type=seconds, default=60.0)
    add("--json FILE", "where every case's outcome is written", type=path)
    add("--allow_sdist", "let requirements be met by source distributions, too", action="store_true")
    add("--exec_dir DIR", "the build cache", type=path)
    return parser


def _coverage(arguments: Sequence[str] | None) -> int:
    options = coverage_parser().parse_args(arguments)
    words = ["--suite", options.suite, *(f"--bench={pattern}" for pattern in options.bench or ())]
    selection = SuiteSelection(read_options(words))
    began = time.monotonic()
    build = resolve_build(options.build, selection.framework, BuildCache(options.exec_dir), sdists=options.allow_sdist)
    made_s = time.monotonic() - began
    builds = selection.on_sides({"treatment": build})
    began = time.monotonic()
    choice = selection.choose(builds)
    discovered_s = time.monotonic() - began
    cases = choice.cases[:: options.every]
    framework = choice.framework or selection.framework
    outcomes, began = Outcomes(len(cases)), time.monotonic()
    for attempt in smoke_check(builds["treatment"], framework, cases, limit_s=options.limit):
        outcomes.add(attempt)
    facts = {
        **(asdict(choice.suite_record) if choice.suite_record else {}),
        "build": build.requested,
        "cases_of_suite": len(choice.cases),
        "made_s": round(made_s, 1),
        "discovered_s": round(discovered_s, 1),
        "checked_s": round(time.monotonic() - began, 1),
    }
    print_result("\n".join(outcomes.lines(facts)), "redirect it to a file")
    if options.json is not None:
        document = {**facts, "outcomes": outcomes.by_case}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return DONE


class Outcomes:
    """What came of the cases so far."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.by_case: dict[str, str] = {}

    def add(self, attempt: SmokeCheck) -> None:
        """Take in one, and log how far it has come."""
        failure = attempt.failure
        self.by_case[attempt.case.id] = "ran" if failure is None else f"{failure.kind}: {failure.reason}"
        if len(self.by_case) % EVERY == 0:
            log.info("%d of %d cases: %s", len(self.by_case), self.total, self.counts)

    @property
    def counts(self) -> str:
        """``12 ran, 3 skipped, 0 failed``."""
        kinds = Counter(map(_group, self.by_case.values()))
        return ", ".join(f"{kinds[name]} {name}" for name in ("ran", "skipped", "failed"))

    def lines(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """The report, as Markdown."""
        at = f" at {facts['commit'][:12]}" if facts["commit"] else ""
        names = len(facts["benchmarks"])
        yield f"{facts['name']}{at}, on {facts['build']}: {names} benchmarks, {facts['cases_of_suite']} cases"
        yield f"{len(self.by_case)} checked in {facts['checked_s']} s, discovered in {facts['discovered_s']} s"
        yield self.counts
        for problem in facts["problems"]:
            yield f"problem: {_short(problem)}"
        reasons: defaultdict[str, list[str]] = defaultdict(list)
        for case, outcome in self.by_case.items():
            if outcome != "ran":
                reasons[outcome].append(case)
        for reason, cases in sorted(reasons.items(), key=lambda cases_of_reason: -len(cases_of_reason[1]))[:REASONS]:
            yield f"{len(cases)} x {_short(reason)} (first: {_short(cases[0])})"


def _group(outcome: str) -> str:
    kind = outcome.partition(":")[0]
    return {"ran": "ran", SKIPPED: "skipped"}.get(kind, "failed")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    raise SystemExit(main())
