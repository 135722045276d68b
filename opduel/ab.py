"""opduel.compare and opduel.local: two builds measured against each other, and the report that they return."""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opduel.commands.fleet import measurer
from opduel.commands.harness import plan_run
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import check_run, refuse_options
from opduel.commands.progress import ProgressDisplay
from opduel.commands.python_options import inputs_as_json, local_options_of_arguments, options_of_arguments, pairs
from opduel.commands.recorded_options import recorded_options
from opduel.commands.repo_driver import measure_work_tree
from opduel.commands.session import callgrind_folder, requested_reporters, warn_of_report
from opduel.harness.run import InterruptedRunError
from opduel.records import Comparison, OpduelError, Report, RunError, UsageError, Verdict, disk_error
from opduel.reporters import Reporter, report_all, write_report
from opduel.reporters.html import to_notebook_html, write_page
from opduel.reporters.interchange.table import case_rows, sample_rows
from opduel.reporters.local import FolderReporter, report_on_disk
from opduel.reporters.screen import render
from opduel.reporters.summary import Conclusion, conclusion, open_lines, validity_line, worst_first

if TYPE_CHECKING:
    import pandas

log = logging.getLogger(__name__)

# Option -> the argument of ``compare`` that gives it, where it is called otherwise.
ARGUMENT_NAMES = {"benchmark_file": "spec", "metric": "metrics"}
Texts = str | Iterable[str]
Share = float | str  # 0.02 or "2%"


@dataclass(frozen=True)
class ABReport(Report):
    """The report of one comparison: everything that ``report.json`` holds, and what follows from it.

    ``str(report)`` is the table that the command prints. A notebook shows the report as a table.
    """

    @classmethod
    def of(cls, report: Report) -> "ABReport":
        """The same report with these methods: of one that ``opduel.reporters.read_report`` read, say."""
        return cls(**{field.name: getattr(report, field.name) for field in fields(report)})

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Case id -> verdict, in the order of the spec: "regressed", "improved", "unchanged", "not_worse" (not slower),
        "not_better" (not faster), "inconclusive" or "failed"."""
        return {comparison.case: comparison.verdict for comparison in self.comparisons}

    @property
    def regressions(self) -> list[Comparison]:
        """The cases that are slower or larger on the treatment, or that it breaks; the largest change first."""
        return [comparison for comparison in worst_first(self.comparisons) if comparison.is_worse]

    @property
    def conclusion(self) -> Conclusion:
        """``"done"``, ``"regressed"`` or ``"incomplete"``: the exit codes 0, 1 and 3 of ``opduel compare``."""
        return conclusion(self)

    @property
    def exit_code(self) -> int:
        """The exit code of ``opduel compare`` for this report: 0, 1 or 3."""
        return {"done": 0, "regressed": 1, "incomplete": 3}[self.conclusion]

    @property
    def ok(self) -> bool:
        """Whether the run is complete, its verdicts stand, and it found no regression: the exit code 0."""
        return self.conclusion == "done"

    @property
    def warnings(self) -> list[str]:
        """Why the run ended early, can't be trusted, or left cases open; empty for most runs."""
        aborted = f"not completed: {self.run.stop_reason}" if self.run.aborted else ""
        return [line for line in (aborted, validity_line(self), *open_lines(self)) if line]

    def to_dataframe(self, samples: bool = False) -> "pandas.DataFrame":
        """A row per case, with the columns of the ``csv`` export; with ``samples``, a row per process pair.

        Times are in ns and memory in bytes, as ``unit`` says; ``inputs`` is a dictionary; what is not known is missing.

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UsageError("to_dataframe() needs pandas: install opduel[pandas], or pandas itself") from None
        columns, rows = sample_rows(self) if samples else case_rows(self)
        return pandas.DataFrame.from_records(list(rows), columns=columns)

    def save(self, path: str | Path) -> None:
        """Write the report at ``path``, as JSON (``report.json``), or as a page if it ends in ``.html``.

        Raises:
            RunError: it can't be written.
        """
        write = write_page if Path(path).suffix == ".html" else write_report
        try:
            write(Path(path), self)
        except OSError as error:
            raise disk_error(path, error, "give another path") from None

    def __str__(self) -> str:
        return render(self)

    def _repr_html_(self) -> str:
        return to_notebook_html(self)


def compare(
    *,
    control: str | Path,
    treatment: str | Path,
    spec: str | Path | None = None,
    operators: Texts | None = None,
    inputs: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    metrics: Texts | None = None,
    threshold: Share | Mapping[str, Share] | None = None,
    time_budget: float | None = None,
    max_rounds: int | None = None,
    seed: int | None = None,
    verify: bool = False,
    busy_host: Literal["hold", "report"] = "hold",
    env: Mapping[str, str] | None = None,
    progress: bool = False,
    **options: Any,
) -> ABReport:
    """Measure two builds against each other, as ``opduel compare`` does, and return the report.

    Reads no config and no project settings: what is not given has the command's own default. Writes no file unless
    ``options`` ask for one.

    Args:
        control: the build to compare with: a release (``"PACKAGE==VERSION"``), the folder of a Python environment, a
            Python interpreter, or a commit (in a checkout ``"main"``, ``"HEAD~3"``, or ``"."`` for the work tree).
        treatment: the build under test, in the same forms.
        spec: the name of a spec that comes with opduel (``"smoke"``), or the path of one.
        operators: the operators to measure, by name (``"nd.dot"``) or pattern; without a spec, from the catalogue of
            all operators.
        inputs: the arguments of the operators in place of the spec's, or a list of such dictionaries:
            ``{"lhs": [256, 256], "rhs": [256, 256]}``.
        metrics: one or more of ``"time"``, ``"instructions"``, ``"memory"``, ``"process_memory"``, ``"error"``.
        threshold: the smallest change that matters, as a share (0.02 or ``"2%"``), or one for each metric.
        time_budget: measure for at most so many seconds.
        max_rounds: the most rounds for a case; None: as the command line has it, by the threshold.
        seed: of the random inputs and of the order of measuring; drawn if it is not given.
        verify: measure the cases that changed again, and report only the changes that are confirmed.
        busy_host: ``"hold"`` withholds the verdicts that a disturbed run doesn't support, ``"report"`` gives all.
        env: variables for the processes of both builds.
        progress: show the progress on standard error.
        options: any other option of ``opduel compare`` by its name, with ``_`` for ``-``: ``True`` for one that takes
            no value, a list for one that can be repeated. A reporter that is named gets the report:
            ``local_reporter="reports"``.

    Raises:
        UsageError: no such build, spec, operator or option, or one with a wrong value.
        RunError: nothing could be measured.
        KeyboardInterrupt: Ctrl-C; reporters that were named have got what was measured until then.
    """
    own_arguments = {
        "control": control,
        "treatment": treatment,
        "benchmark_file": spec,
        "operators": operators,
        "inputs": inputs_as_json(inputs),
        "metric": metrics,
        "threshold": pairs(threshold) if isinstance(threshold, Mapping) else threshold,
        "time_budget": time_budget,
        "max_rounds": max_rounds,
        "seed": seed,
        "verify": verify,
        "busy_host": busy_host,
        "env": pairs(env or {}),
    }
    with _importable_errors():
        return _measure(options_of_arguments({**own_arguments, **options}, ARGUMENT_NAMES), progress)


def local(
    *statements: str,
    setup: str | None = None,
    suite: str | Path | None = None,
    bench: Texts | None = None,
    folder: str | Path = ".",
    branch: str | None = None,
    base: str | None = None,
    metrics: Texts | None = None,
    threshold: Share | Mapping[str, Share] | None = None,
    time_budget: float | None = None,
    busy_host: Literal["hold", "report"] = "hold",
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> ABReport:
    """Measure a package as its checkout is now against where it left the main branch, as ``opduel local`` does.

    Uncommitted changes count. The same work tree is answered at once, from what was measured before. Reports are also
    kept where the command keeps them. No config and no project settings are read.

    Args:
        statements: lines of Python, each a case: ``"mypkg.smooth(x)"``.
        setup: Python code that each process runs once before: ``"import mypkg, numpy; x = numpy.ones(1000)"``.
        suite: in place of statements, the suite to measure; without either, the one that the checkout has.
        bench: of the suite, only benchmarks whose name matches one of these regular expressions.
        folder: the checkout, or a folder in it.
        branch: the branch to which the change goes; None: the remote's default branch.
        base: the commit to compare with, in place of that where the work tree left the branch.
        metrics: one or more of ``"time"``, ``"instructions"``, ``"memory"``, ``"process_memory"``.
        threshold: the smallest change that matters, as a share (0.02 or ``"2%"``), or one for each metric.
        time_budget: measure for at most so many seconds (None: 180).
        busy_host: ``"hold"`` withholds the verdicts that a disturbed run doesn't support, ``"report"`` gives all.
        env: variables for the processes of both builds.
        options: any other option of ``opduel local`` by its name, with ``_`` for ``-``.

    Returns:
        The report. Where nothing is changed all of its cases are unchanged, and nothing was measured.

    Raises:
        UsageError: no checkout, package, suite, branch or option, or one with a wrong value.
        RunError: a build can't be made, or nothing could be measured.
    """
    own_arguments = {
        "statement": list(statements),
        "setup": setup,
        "suite": suite,
        "bench": bench,
        "local": folder,
        "branch": branch,
        "base_commit": base,
        "metric": metrics,
        "threshold": pairs(threshold) if isinstance(threshold, Mapping) else threshold,
        "time_budget": time_budget,
        "busy_host": busy_host,
        "env": pairs(env or {}),
    }
    names = {"statement": "statements", "local": "folder", "base_commit": "base", "metric": "metrics"}
    with _importable_errors():
        driver = local_options_of_arguments({**own_arguments, **options}, names)
        reporters = requested_reporters(driver.harness)
        command = recorded_options("opduel local", driver.harness)
        return ABReport.of(measure_work_tree(driver, command, reporters))


@contextmanager
def _importable_errors() -> Iterator[None]:
    """Within it, errors are of a kind that callers can import."""
    try:
        yield
    except OpduelError as error:
        kind = UsageError if isinstance(error, UsageError) else RunError
        raise kind(str(error)) from None


def _measure(options: HarnessOptions, progress: bool) -> ABReport:
    """Measure and report as the options say."""
    refuse_options(options, "two builds", "several runs")
    check_run(options)
    reporters = requested_reporters(options)
    measurer(options)  # what it lacks is said before anything is built
    session, request = plan_run(options, {}, recorded_options("opduel compare", options), reporters)
    measure = measurer(options, suite=session.choice.suite)
    with callgrind_folder() as callgrind:
        request = replace(request, callgrind=callgrind)
        try:
            if progress:
                with ProgressDisplay(len(request.cases), sys.stderr) as display:
                    report = measure(request, display.show)
            else:
                report = measure(request, lambda _: None)
        except InterruptedRunError as error:
            raise KeyboardInterrupt(str(error)) from None
        warn_of_report(report)
        _deliver(reporters, report, callgrind)
    if report.run.interrupted:
        raise KeyboardInterrupt(str(report.run.stop_reason))
    return ABReport.of(report)


def _deliver(reporters: Sequence[Reporter], report: Report, callgrind: Path | None) -> None:
    """Deliver to every reporter, those on disk first, and log what came of it: the caller has the report."""
    on_disk = report_on_disk(
        [reporter for reporter in reporters if isinstance(reporter, FolderReporter)], report, callgrind
    )
    off_disk = report_all([reporter for reporter in reporters if not isinstance(reporter, FolderReporter)], report)
    for line in (*on_disk.lines, *off_disk.lines):
        log.info("%s", line)
    for failure in (*on_disk.failures, *off_disk.failures):
        log.error("%s", failure)
