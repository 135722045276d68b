"""harness.py --fuzz: the run's cases are drawn, and what differed is written as a small spec."""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opduel.commands.entry import log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.commands.overwrite_check import files_read, refuse_overwriting
from opduel.driver.catalogue.write import test_text
from opduel.frameworks import Framework
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Case, Comparison, OpduelError, Report, UsageError
from opduel.reporters.units import human_change
from opduel.support.atomic import check_file, check_folder, write_atomically
from opduel.support.command_names import command_name
from opduel.support.text import counted

if TYPE_CHECKING:
    from opduel.harness.other_runs.fuzz import Finding

MOST = 10  # findings that are made smaller, the largest first
RUN_SHARE = 0.6  # of a time budget, for the run itself
STEP_ROUNDS = 8  # process pairs for a case in one step of shrinking, and again to confirm
STEP_SHARE = 0.25  # of the time that is left, for one step
STEP_S = 20.0  # but no less, as far as there is time


class Fuzz:
    """One run on drawn inputs. UsageError: options that don't go together, a package that is missing, or a file that
    can't be written."""

    def __init__(self, options: HarnessOptions) -> None:
        refuse_options(options, "fuzz")
        try:
            import hypothesis  # noqa: F401 - opduel.harness.other_runs.fuzz needs it
        except ImportError:
            raise UsageError("--fuzz: needs the package hypothesis: install it beside opduel") from None
        assert options.fuzz is not None
        self._count = options.fuzz
        self._path: Path | None = options.fuzz_spec
        self._read = files_read(options, None)
        if self._path is not None:
            check_file(self._path, "fuzz_spec")
        check_folder((self._path or Path("fuzz.json")).absolute().parent, "fuzz_spec")
        self._budget: float | None = options.time_budget
        self._began = time.monotonic()
        self._draws: list[Any] = []

    def drawn(self, request: RunRequest, spec: Path | None = None) -> RunRequest:
        """The run on drawn inputs in place of the spec's, with its share of the time budget; ``spec``: its file.
        UsageError: the file that is to be written would replace one that is read; RunError: nothing that was drawn runs
        on the control."""
        from opduel.harness.other_runs.fuzz import draw_cases

        read = {**self._read, "-b": [] if spec is None else [spec]}
        refuse_overwriting(read, "--fuzz_spec", [self._found_in(request)])
        of_run = request.seed, request.control, request.framework, request.env
        self._draws = draw_cases(request.cases, self._count, *of_run)
        log.info("--fuzz: %d inputs drawn with seed %d", len(self._draws), request.seed)
        budget = None if self._budget is None else RUN_SHARE * self._budget
        drawn = replace(request, cases=[case for _, cases in self._draws for case in cases])
        return drawn.configured(time_budget=budget)

    def keep_findings(self, request: RunRequest, report: Report) -> None:
        """Make the inputs on which the builds differ as small as can be, and write them as a spec.

        What goes wrong here is logged: the run's own report is safe.
        """
        from opduel.harness.other_runs.fuzz import findings, first_of_each_kind, shrink

        differing = findings(self._draws, {comparison.case: comparison for comparison in report.comparisons})
        if not differing:
            undecided = sum(comparison.verdict == "inconclusive" for comparison in report.comparisons)
            of_all = f"; {undecided} of {counted(len(report.comparisons), 'case')} undecided" if undecided else ""
            log.info("--fuzz: no input was found on which the builds differ%s", of_all)
            return
        chosen = first_of_each_kind(differing)[:MOST]
        log.info("--fuzz: %d cases differ; shrinking those with the largest differences", len(differing))
        small = chosen if report.run.interrupted else shrink(chosen, self._measure(request))
        for finding in small:
            words = describe_comparison(finding.comparison)
            log.info("--fuzz: %s: %s, %s", finding.case.id, words, json.dumps(finding.case.inputs))
        path = self._found_in(request)
        try:
            write_atomically(path, spec_text(small, request).encode())
        except OSError as error:
            log.error("--fuzz_spec %s: cannot be written (%s): give another path", path, error.strerror)
            return
        measure = f"{command_name('compare')} -b {path}"
        log.info("--fuzz: %d cases written to %s; measure them with: %s", len(small), path, measure)

    def _found_in(self, request: RunRequest) -> Path:
        """The file that gets what is found."""
        return self._path or Path(f"fuzz-{request.seed}.json")

    def _measure(self, request: RunRequest) -> Callable[[Sequence[Case]], Mapping[str, Comparison]]:
        """Measures cases in a run of their own, while there is time."""

        def measure(cases: Sequence[Case]) -> Mapping[str, Comparison]:
            seconds_left = math.inf if self._budget is None else self._budget - (time.monotonic() - self._began)
            if seconds_left <= 0:
                return {}
            step_s = max(seconds_left * STEP_SHARE, min(seconds_left, STEP_S))
            small = replace(request, cases=cases).configured(
                max_rounds=min(STEP_ROUNDS, request.max_rounds),
                sentinels=0,
                time_budget=None if math.isinf(step_s) else step_s,
                roofline=False,
                profile_output=None,
                breakdown=False,
                explain="none",
            )
            try:
                report = run_ab(small)
                return {} if report.run.aborted else {comparison.case: comparison for comparison in report.comparisons}
            except OpduelError as error:
                log.warning("--fuzz: the inputs can't be shrunk: %s", error)
                return {}

        return measure


def describe_comparison(comparison: Comparison) -> str:
    """What was measured on one case, in a few words."""
    if comparison.failure is not None:
        return f"fails on the {comparison.failure.side}: {comparison.failure.reason}"
    if comparison.metric == "error":
        return f"differs: {comparison.note}"
    change = [] if comparison.ratio is None else [human_change(comparison.ratio)]
    return ", ".join([comparison.verdict, *change])


def spec_text(findings: Sequence["Finding"], request: RunRequest) -> str:
    """A spec of the findings' cases, which ``harness.py -b`` takes; its description says what was found."""
    summary = "; ".join(f"{finding.case.id}: {describe_comparison(finding.comparison)}" for finding in findings)
    head = {
        "framework": request.framework.name,
        "description": f"Found by --fuzz with seed {request.seed}, {_name(request.control)} against "
        f"{_name(request.treatment)}, and made smaller: {summary}.",
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    body = ",\n".join(test_text(_test(finding.case, request.framework)) for finding in findings)
    return "{\n" + "\n".join(lines) + f'\n  "tests": [\n{body}\n  ]\n}}\n'


def _name(build: Build) -> str:
    return build.requested if build.strategy == "release" else build.label


def _test(case: Case, framework: Framework) -> dict[str, Any]:
    """A case as a test of a spec."""
    usual = {"dtype": framework.cases.usual_dtype, "context": "cpu", "metric": "time", "mode": "imperative"}
    own = {name: getattr(case, name) for name in usual}
    value_by_setting = {name: value for name, value in own.items() if value not in ("", usual[name])}
    directions = {"directions": [case.direction]} if case.direction else {}
    head = {"identifier": case.id.partition("/")[0], "operator": case.operator, **directions}
    return {**head, **value_by_setting, "inputs": [{**case.inputs}]}
