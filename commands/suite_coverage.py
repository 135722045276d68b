"""python -m opduel.commands.suite_coverage: runs every case of an asv suite once on a build, and says what ran, was
skipped or failed, and why; with --beside_asv also what asv finds and runs."""

import itertools
import json
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from opduel.commands.entry import DONE, log, run_command
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_types import path, seconds
from opduel.commands.options import Parser
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.process import run
from opduel.driver.suites.discovery import Discovered, discover, suite_environment
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.records import Case, RunError
from opduel.records.measurement import SKIPPED
from opduel.reporters.stream import print_result

EVERY = 100  # cases between two lines of progress
REASONS = 12  # shown; the JSON has all
QUICK = str(Path(__file__).resolve().parent.parent / "frameworks" / "asv" / "quick.py")
LONGEST = 110  # characters of one
ASV, ASV_TIMEOUT_S = "asv==0.6.5", 7200.0  # what --beside_asv installs, and how long all its cases may take


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return run_command("opduel.commands.suite_coverage", lambda: _coverage(arguments))


def coverage_parser() -> Parser:
    parser = Parser(prog="python -m opduel.commands.suite_coverage", description=__doc__)
    add = parser.options()
    add("suite SUITE", "the suite, as in harness.py's --suite")
    add("build BUILD", "the build to try it on: requirements, an environment or an interpreter")
    add("--bench REGEX", "only benchmarks whose name, with parameters, matches; repeatable", action="append")
    add("--suite_packages REQUIREMENTS", "what is installed beside the build, as in harness.py")
    add("--sample N", "only so many cases, drawn at random, or a share such as 10%%")
    add("--limit SECONDS", "longest time for one case (default: 60)", type=seconds, default=60.0)
    add("--beside_asv", "run the same cases by `asv run --quick`, too, and list the differences", action="store_true")
    add("--json FILE", "where every case's outcome is written", type=path)
    add("--allow_sdist", "let requirements be met by source distributions, too", action="store_true")
    add("--exec_dir DIR", "the build cache", type=path)
    return parser


def _coverage(arguments: Sequence[str] | None) -> int:
    options = coverage_parser().parse_args(arguments)
    words = {"suite_packages": options.suite_packages, "sample": options.sample}
    selection = SuiteSelection(HarnessOptions(suite=options.suite, bench=tuple(options.bench or ()), **words))
    env = selection.options.variables
    cache = BuildCache(options.exec_dir)
    began = time.monotonic()
    build = resolve_build(options.build, selection.framework, cache, sdists=options.allow_sdist)
    built = time.monotonic()
    builds = selection.on_sides({"treatment": build})
    build, folder = builds["treatment"], selection.work.copies["treatment"]
    place = selection.work.place("treatment")
    suite = discover(build, selection.framework, folder, place, env, selection.suite.tests)
    discovered = time.monotonic()
    choice = selection.choose(builds)
    framework = choice.framework or selection.framework
    outcomes: dict[str, str] = {}
    for attempt in smoke_check(build, framework, choice.cases, limit_s=options.limit, env=env):
        failure = attempt.failure
        outcomes[attempt.case.id] = "ran" if failure is None else f"{failure.kind}: {failure.reason}"
        if len(outcomes) % EVERY == 0:
            log.info("%d of %d cases: %s", len(outcomes), len(choice.cases), _counts(outcomes))
    facts = {
        **(asdict(choice.suite_record) if choice.suite_record else {}),
        "build": build.requested,
        "benchmarks_of_suite": {benchmark.name: benchmark.count for benchmark in suite.benchmarks},
        "built_s": round(built - began, 1),
        "discovered_s": round(discovered - built, 1),
        "checked_s": round(time.monotonic() - discovered, 1),
        "outcomes": outcomes,
    }
    if options.beside_asv:
        python = resolve_build(ASV, get_framework("python"), cache).interpreter
        command = [python, QUICK, str(folder), build.interpreter, f"{options.limit:g}"]
        facts["asv"] = _by_asv(command, suite, choice.cases, suite_environment(build, framework, env))
    print_result("\n".join(_lines(facts)), "redirect it to a file")
    if options.json is not None:
        options.json.write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return DONE


def _by_asv(
    command: Sequence[str], suite: Discovered, cases: Sequence[Case], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return what frameworks/asv/quick.py answers, its outcomes by case. RunError: nothing."""
    numbers = {
        (benchmark.name, values): number
        for benchmark in suite.benchmarks
        for number, values in enumerate(itertools.product(*benchmark.values))
    }
    places = [(case.operator, numbers[case.operator, tuple(case.inputs.values())]) for case in cases]
    with tempfile.TemporaryDirectory() as scratch:
        cases_file, answer_file = Path(scratch) / "cases.json", Path(scratch) / "answer.json"
        cases_file.write_text(json.dumps(places), encoding="utf-8")
        outcome = run(
            [*command, cases_file, answer_file],
            timeout=ASV_TIMEOUT_S,
            whole_environment=environment,
            directory=Path(scratch),
        )
        if not outcome.ok:
            raise RunError(f"asv: {outcome.output_tail}: leave --beside_asv out")
        answer = json.loads(answer_file.read_text(encoding="utf-8"))
    ids = {place: case.id for place, case in zip(places, cases, strict=True)}
    return {**answer, "outcomes": {ids[name, number]: outcome for name, number, outcome in answer["outcomes"]}}


def _counts(outcomes: Mapping[str, str]) -> str:
    kinds = Counter(map(group, outcomes.values()))
    return ", ".join(f"{kinds[name]} {name}" for name in ("ran", "skipped", "failed"))


def _lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report, as Markdown."""
    outcomes, benchmarks = facts["outcomes"], facts["benchmarks_of_suite"]
    at = f" at {facts['commit'][:12]}" if facts["commit"] else ""
    cases = sum(benchmarks.values())
    yield f"{facts['name']}{at}, on {facts['build']}: {len(benchmarks)} benchmarks, {cases} cases"
    yield f"{len(outcomes)} checked in {facts['checked_s']} s, discovered in {facts['discovered_s']} s"
    yield _counts(outcomes)
    yield from (f"problem: {_short(problem)}" for problem in facts["problems"])
    first_case = {outcome: case for case, outcome in reversed([*outcomes.items()])}
    for reason, count in Counter(outcome for outcome in outcomes.values() if outcome != "ran").most_common(REASONS):
        yield f"{count} x {_short(reason)} (first: {_short(first_case[reason])})"
    if "asv" in facts:
        yield from _asv_lines(facts)


def _asv_lines(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what asv finds and runs, and where that differs."""
    asv, benchmarks, outcomes = facts["asv"], facts["benchmarks_of_suite"], facts["outcomes"]
    yield f"asv: {len(asv['benchmarks'])} benchmarks, {sum(asv['benchmarks'].values())} cases; of the same cases"
    yield f"asv: {_counts(asv['outcomes'])}"
    if asv["problem"]:
        yield f"asv: stops: {_short(asv['problem'])}"
    yield from (f"only asv: {name}" for name in sorted(asv["benchmarks"].keys() - benchmarks.keys()))
    yield from (f"only opduel: {name}" for name in sorted(benchmarks.keys() - asv["benchmarks"].keys()))
    for case, outcome in outcomes.items():
        if group(outcome) != group(asv["outcomes"][case]):
            yield f"{case}: {_short(outcome)}; asv: {_short(asv['outcomes'][case])}"


def group(outcome: str) -> str:
    """Return ``ran``, ``skipped`` or ``failed``."""
    kind = outcome.partition(":")[0]
    return {"ran": "ran", SKIPPED: "skipped"}.get(kind, "failed")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    raise SystemExit(main())
