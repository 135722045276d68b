"""python -m opduel.commands.suite_coverage: runs every case of an asv suite once on a build, and says what ran, was
skipped or failed, and why; with --beside_asv also where asv's outcome is another."""

import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from opduel.commands.entry import DONE, run_command
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_types import path
from opduel.commands.options import Parser
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.builds.process import run
from opduel.driver.suites.discovery import Discovered, suite_environment
from opduel.frameworks import get_framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.records import Case, RunError
from opduel.records.measurement import SKIPPED
from opduel.reporters.stream import print_result

Outcomes = Mapping[str, str]  # by case: "ran", or the kind of a failure, a colon and the reason
QUICK = str(Path(__file__).resolve().parent.parent / "frameworks" / "asv" / "quick.py")
LIMIT_S = 60.0  # for one case
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
    add("--beside_asv", "run the same cases by `asv run --quick`, too, and list the differences", action="store_true")
    add("--exec_dir DIR", "the build cache", type=path)
    return parser


def _coverage(arguments: Sequence[str] | None) -> int:
    options = coverage_parser().parse_args(arguments)
    words = {"suite_packages": options.suite_packages, "sample": options.sample}
    selection = SuiteSelection(HarnessOptions(suite=options.suite, bench=tuple(options.bench or ()), **words))
    env, cache = selection.options.variables, BuildCache(options.exec_dir)
    builds = selection.on_sides({"treatment": resolve_build(options.build, selection.framework, cache)})
    build, choice = builds["treatment"], selection.choose(builds)
    framework = choice.framework or selection.framework
    outcomes = {
        attempt.case.id: f"{attempt.failure.kind}: {attempt.failure.reason}" if attempt.failure else "ran"
        for attempt in smoke_check(build, framework, choice.cases, limit_s=LIMIT_S, env=env)
    }
    lines = [f"{choice.name} on {build.requested}: {_counts(outcomes)}", *_reasons(outcomes)]
    if options.beside_asv:
        python = resolve_build(ASV, get_framework("python"), cache).interpreter
        command = [python, QUICK, str(selection.work.copies["treatment"]), build.interpreter, f"{LIMIT_S:g}"]
        suite = selection.collect(builds).benchmarks_by_side["treatment"]
        lines += _differences(outcomes, _by_asv(command, suite, choice.cases, suite_environment(build, framework, env)))
    print_result("".join(f"{line}\n" for line in lines), "redirect it to a file")
    return DONE


def _by_asv(
    command: Sequence[str], suite: Discovered, cases: Sequence[Case], environment: Mapping[str, str]
) -> Outcomes:
    """Return the outcomes that frameworks/asv/quick.py answers. RunError: nothing."""
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
    return {ids[name, number]: outcome for name, number, outcome in answer["outcomes"]}


def _counts(outcomes: Outcomes) -> str:
    kinds = Counter(map(kind_of, outcomes.values()))
    return ", ".join(f"{kinds[name]} {name}" for name in ("ran", "skipped", "failed"))


def _reasons(outcomes: Outcomes) -> Iterator[str]:
    """Yield why cases did not run, the most frequent reason first."""
    first_case = {outcome: case for case, outcome in reversed([*outcomes.items()])}
    for reason, count in Counter(outcome for outcome in outcomes.values() if outcome != "ran").most_common():
        yield f"{count} x {reason} (first: {first_case[reason]})"


def _differences(outcomes: Outcomes, outcomes_of_asv: Outcomes) -> Iterator[str]:
    """Yield what ran by asv, and the cases that went otherwise there."""
    yield f"asv: {_counts(outcomes_of_asv)}"
    for case, outcome in outcomes.items():
        if kind_of(outcome) != kind_of(outcomes_of_asv[case]):
            yield f"{case}: {outcome}; asv: {outcomes_of_asv[case]}"


def kind_of(outcome: str) -> str:
    """Return ``ran``, ``skipped`` or ``failed``."""
    return {"ran": "ran", SKIPPED: "skipped"}.get(outcome.partition(":")[0], "failed")


if __name__ == "__main__":
    raise SystemExit(main())
