"""opduel conformance: does a framework, of ours or of another package, keep what the harness relies on?"""

import functools
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opduel.commands.entry import DONE, REGRESSED, log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.conformance import CHECKS, Outcome, Subject
from opduel.harness.conformance import check as run_check
from opduel.harness.specs import expand_cases, find_spec, load_spec, select_cases
from opduel.records import DEFAULT_METRIC, VALUE, Case, UsageError
from opduel.records.measurement import Side
from opduel.reporters.stream import print_result

_WIDTH = max(map(len, CHECKS)) + 2


def run_conformance(
    control: str,
    treatment: str | None,
    benchmark_file: str | None,
    suite: str | None,
    bench: Sequence[str] | None,
    check: Sequence[str] | None,
    **options: Any,
) -> int:
    """Make the checks and print a line for each; return the exit code, or raise an OpduelError that has it.
    ``options``: the further ones of `subject_of`."""
    if unknown := set(check or ()) - set(CHECKS):
        raise UsageError(f"--check {min(unknown)}: there is no such check: use one of {', '.join(CHECKS)}")
    if suite is not None:
        patterns = [*(bench or ()), *([benchmark_file] if benchmark_file else ())]
        subject = subject_of_suite(suite, control, treatment, bench=patterns, **options)
    elif bench:
        raise UsageError("--bench: is for a suite's benchmarks: add --suite, or leave it out")
    elif benchmark_file is None:
        raise UsageError("-b: is missing: name a spec of the framework, or a suite by --suite")
    else:
        subject = subject_of(benchmark_file, control, treatment, **options)
    logging.getLogger("opduel.harness").setLevel(logging.ERROR)
    outcomes = []
    for name in check or CHECKS:
        log.debug("check %s", name)
        outcomes.append(run_check(name, subject))
        print_result("".join(f"{line}\n" for line in lines_of(outcomes[-1])), "")
    problems = sum(len(outcome.problems) for outcome in outcomes)
    name = subject.framework.name
    log.info("%s: %s", name, f"{problems} problems" if problems else f"conforms ({len(outcomes)} checks)")
    return REGRESSED if problems else DONE


def lines_of(outcome: Outcome) -> list[str]:
    """A check's outcome as text: ``ok``, or its problems, and what was not checked."""
    rows = [("PROBLEM", problem) for problem in outcome.problems] or [("ok", "")]
    rows += [("note", note) for note in outcome.notes]
    return [f"{outcome.check:<{_WIDTH}}{kind:<9}{text}".rstrip() for kind, text in rows]


def subject_of(
    spec: str | Path,
    control: str,
    treatment: str | None = None,
    *,
    operators: Sequence[str] = (),
    seed: int = 1,
    exec_dir: Path | None = None,
) -> Subject:
    """What ``check`` takes: the framework of a spec, its cases measured by time, and two builds, made if need be.

    ``treatment``: by default the control. ``operators``: as ``--operators``. UsageError: a bad spec, no case to
    measure, or no such build; RunError: a build can't be made.
    """
    document = load_spec(find_spec(str(spec)))
    cases = [case for case in expand_cases(document) if not case.files]
    cases = _measured_once(select_cases(cases, operators) if operators else cases)
    if not cases:
        raise UsageError(f"{spec}: has no case without files: give a spec that has one")
    cache, framework = BuildCache(exec_dir), get_framework(document.framework).for_cases(cases)
    requests: dict[Side, str] = {"control": control, "treatment": treatment or control}
    resolve = functools.cache(lambda request, own_framework: resolve_build(request, own_framework, cache))
    first, second = (
        framework.equipped(side, resolve(request, framework.of_side(side)), 1) for side, request in requests.items()
    )
    return Subject(framework, first, second, cases, seed=seed)


def subject_of_suite(
    suite: str,
    control: str,
    treatment: str | None = None,
    *,
    bench: Sequence[str] = (),
    operators: Sequence[str] = (),
    seed: int = 1,
    exec_dir: Path | None = None,
) -> Subject:
    """The same for a suite, as ``--suite`` and ``--bench`` name it; its ``setup_cache`` is run. UsageError: no such
    suite, nothing to measure in it, or no such build; RunError: a build can't be made, or the suite can't be had."""
    selection = SuiteSelection(HarnessOptions(suite=suite, bench=tuple(bench), operators=tuple(operators)))
    cache, framework = BuildCache(exec_dir), selection.framework
    first = resolve_build(control, framework, cache)
    second = resolve_build(treatment, framework, cache) if treatment else first
    builds = selection.on_sides({"control": first, "treatment": second})
    choice = selection.choose(builds)
    cases = _measured_once(choice.cases)
    framework = choice.framework or framework
    return Subject(framework, builds["control"], builds["treatment"], cases, seed=seed, resources=choice.resources)


def _measured_once(cases: Sequence[Case]) -> list[Case]:
    """Each of the cases once: by time, or by the value that it reports where the spec has it measured by that alone;
    those by time first."""
    case_by_id: dict[str, Case] = {}
    for case in cases:
        if case.time_id not in case_by_id or case.metric == DEFAULT_METRIC:
            timed = case.metric != VALUE
            case_by_id[case.time_id] = replace(case, id=case.time_id, metric=DEFAULT_METRIC) if timed else case
    return sorted(case_by_id.values(), key=lambda case: case.metric != DEFAULT_METRIC)
