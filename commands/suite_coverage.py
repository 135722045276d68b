"""python -m opduel.commands.suite_coverage: runs every case of an asv suite once on a build, and says what ran, was
skipped or failed, and why."""

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opduel.commands.entry import DONE, log, run_command
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_types import path, seconds
from opduel.commands.options import Parser
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds import BuildCache, resolve_build
from opduel.harness.other_runs.smoke_check import smoke_check
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
    selection = SuiteSelection(HarnessOptions(suite=options.suite, bench=tuple(options.bench or ())))
    began = time.monotonic()
    build = resolve_build(options.build, selection.framework, BuildCache(options.exec_dir), sdists=options.allow_sdist)
    made = time.monotonic()
    builds = selection.on_sides({"treatment": build})
    choice = selection.choose(builds)
    discovered = time.monotonic()
    cases, framework = choice.cases[:: options.every], choice.framework or selection.framework
    outcomes: dict[str, str] = {}
    for attempt in smoke_check(builds["treatment"], framework, cases, limit_s=options.limit):
        failure = attempt.failure
        outcomes[attempt.case.id] = "ran" if failure is None else f"{failure.kind}: {failure.reason}"
        if len(outcomes) % EVERY == 0:
            log.info("%d of %d cases: %s", len(outcomes), len(cases), _counts(outcomes))
    facts = {
        **(asdict(choice.suite_record) if choice.suite_record else {}),
        "build": build.requested,
        "cases_of_suite": len(choice.cases),
        "made_s": round(made - began, 1),
        "discovered_s": round(discovered - made, 1),
        "checked_s": round(time.monotonic() - discovered, 1),
    }
    print_result("\n".join(_lines(facts, outcomes)), "redirect it to a file")
    if options.json is not None:
        options.json.write_text(json.dumps({**facts, "outcomes": outcomes}, indent=1), encoding="utf-8")
    return DONE


def _counts(outcomes: Mapping[str, str]) -> str:
    """Return ``12 ran, 3 skipped, 0 failed``."""
    kinds = Counter(map(_group, outcomes.values()))
    return ", ".join(f"{kinds[name]} {name}" for name in ("ran", "skipped", "failed"))


def _lines(facts: Mapping[str, Any], outcomes: Mapping[str, str]) -> Iterator[str]:
    """Yield the report, as Markdown."""
    at = f" at {facts['commit'][:12]}" if facts["commit"] else ""
    benchmarks = len(facts["benchmarks"])
    yield f"{facts['name']}{at}, on {facts['build']}: {benchmarks} benchmarks, {facts['cases_of_suite']} cases"
    yield f"{len(outcomes)} checked in {facts['checked_s']} s, discovered in {facts['discovered_s']} s"
    yield _counts(outcomes)
    yield from (f"problem: {_short(problem)}" for problem in facts["problems"])
    first_case = {outcome: case for case, outcome in reversed([*outcomes.items()])}
    for reason, count in Counter(outcome for outcome in outcomes.values() if outcome != "ran").most_common(REASONS):
        yield f"{count} x {_short(reason)} (first: {_short(first_case[reason])})"


def _group(outcome: str) -> str:
    kind = outcome.partition(":")[0]
    return {"ran": "ran", SKIPPED: "skipped"}.get(kind, "failed")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    raise SystemExit(main())
