"""Raw results of calibrate.py: a line of JSON for each run, with its comparisons and their samples.

``decide_again`` has the comparator make the verdicts again from the samples.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from opduel.comparator import RunAnalysis, plan_looks
from opduel.records import USUAL_ROUNDS, Build, Case, Comparison, Failure, PairSample, Report
from opduel.records.host_record import HostRecord
from opduel.records.measurement import STAGES, Stage
from opduel.records.run_record import RunRecord

SCHEMA_VERSION = 1
RUN_KEYS = ("spec", "seed", "started", "complete", "aborted", "wall_s", "timed_s", "noise", "expected_s")
HOST_KEYS = ("cpu_model", "logical_cpus", "kernel", "hypervisor")
LOAD_KEYS = ("neighbours", "stolen", "memory_pressure")
DIGITS = 6  # of process values and log ratios: a millionth of each is less than a clock can tell


@dataclass(frozen=True)
class PlannedRun:
    """One run of the plan: the share that is injected into every second case, the threshold (a share), the load beside
    the run, and its number among those that have the three in common, from 1."""

    inject: float
    threshold: float
    number: int
    load: str

    @property
    def name(self) -> str:
        """A name that no other run of any plan has."""
        return f"{self.inject * 100:g}%-at-{self.threshold * 100:g}%-{self.load}-{self.number}"


@dataclass(frozen=True)
class CalibrationRun:
    """A run that was made, the further options that harness.py got, and the recorded part of its report."""

    planned: PlannedRun
    options: tuple[str, ...]
    report: Report

    @property
    def subject(self) -> tuple[str, str, tuple[str, ...]]:
        """Build, spec and options, which all runs of one file have in common."""
        return self.report.control.requested, str(self.report.run.spec), self.options


def to_line(planned: PlannedRun, options: Sequence[str], report: Report, commit: str | None) -> str:
    """Return the line, without its end, of a run that opduel made at ``commit``."""
    run, course, machine = report.run, asdict(report.run), asdict(report.host)
    document = {
        "schema_version": SCHEMA_VERSION,
        "step": vars(planned),
        "options": list(options),
        "build": report.control.requested,
        "version": report.control.version,
        "commit": commit,
        "run": {key: course[key] for key in RUN_KEYS},
        "nice": run.cpus.nice,
        "max_rounds": run.max_rounds,
        "alpha": report.configuration.alpha,
        "validity": {key: course["validity"][key] for key in ("valid", "hold", "reasons")},
        "host": {key: machine[key] for key in HOST_KEYS},
        "load": {key: (machine["during"] or {}).get(key) for key in LOAD_KEYS},
        "comparisons": [_comparison_document(comparison) for comparison in report.comparisons],
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def _comparison_document(comparison: Comparison) -> dict[str, Any]:
    samples = {
        stage: [_sample_row(sample) for sample in comparison.samples if sample.stage == stage] for stage in STAGES
    }
    return {
        "case": comparison.case,
        "injected": comparison.injected,
        "verdict": comparison.verdict,
        "held_back": comparison.held_back,
        "ratio": comparison.ratio and _rounded(comparison.ratio),
        "ci": comparison.ci and [_rounded(limit) for limit in comparison.ci],
        "reason": comparison.failure and comparison.failure.reason,
        **{stage: rows for stage, rows in samples.items() if rows},
    }


def _sample_row(sample: PairSample) -> list[Any]:
    """Return both process values and the log ratio; then, of a sample with forks, the number of blocks, and each fork's
    log ratio and standard error."""
    values = [_rounded(sample.control), _rounded(sample.treatment), _rounded(sample.log_ratio)]
    forks = [[_rounded(ratio), _rounded(standard_error)] for ratio, standard_error in sample.fork_ratios]
    return [*values, sample.blocks, forks] if forks else values


def _rounded(value: float) -> float:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short  # "712345", not "712345.0"


def parse_run(document: Mapping[str, Any]) -> CalibrationRun:
    """Return the run of a line, with as much of its report as is recorded.

    Raises:
        ValueError, KeyError, TypeError: it is not one of calibrate.py.
    """
    if document["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema_version {document['schema_version']}")
    planned = PlannedRun(**document["step"])
    build = Build("", document["build"], "release", "", document["version"], "", "")
    configuration = {"max_rounds": document["max_rounds"], "alpha": document["alpha"], "inject": planned.inject}
    run = RunRecord.of({**document["run"], "validity": document["validity"], "configuration": configuration})
    host = HostRecord.of({**document["host"], "during": {"seconds": 0.0, **document["load"]}})
    comparisons = tuple(_parse_comparison(row, planned.threshold) for row in document["comparisons"])
    return CalibrationRun(planned, tuple(document["options"]), Report(run, build, build, host, comparisons))


def _parse_comparison(row: Mapping[str, Any], threshold: float) -> Comparison:
    """Return the comparison, without the figures that are not recorded."""
    samples = tuple(
        _parse_sample(row["case"], stage, number, values)
        for stage in STAGES
        for number, values in enumerate(row.get(stage, ()))
    )
    failure = Failure("both", "unknown", row["reason"]) if row["reason"] else None
    comparison = Comparison.without_figures(
        _case(row["case"], threshold), row["verdict"], samples=samples, failure=failure, injected=row["injected"]
    )
    return replace(comparison, ratio=row["ratio"], ci=row["ci"] and tuple(row["ci"]), held_back=row["held_back"])


def _parse_sample(case_id: str, stage: Stage, number: int, row: Sequence[Any]) -> PairSample:
    control, treatment, log_ratio, blocks, forks = row if len(row) > 3 else (*row, 1, ())
    fork_ratios = tuple((ratio, standard_error) for ratio, standard_error in forks)
    return PairSample(
        case_id, stage, number, control, treatment, log_ratio, blocks, 1, max(1, len(forks)), fork_ratios=fork_ratios
    )


def _case(case_id: str, threshold: float) -> Case:
    """Return as much of the case as statistics need."""
    return Case(case_id, case_id.rpartition("/")[0], "forward", {}, "float32", "cpu", threshold, 60.0)


def analysis_of(run: CalibrationRun) -> RunAnalysis:
    """Return the comparator's analysis of the run's samples."""
    comparisons, configuration = run.report.comparisons, run.report.configuration
    return RunAnalysis(
        [_case(comparison.case, comparison.threshold) for comparison in comparisons],
        {comparison.case: comparison.samples for comparison in comparisons},
        {comparison.case: comparison.failure for comparison in comparisons if comparison.failure},
        plan_looks(configuration.max_rounds or USUAL_ROUNDS),
        configuration.alpha,
        injected=frozenset(comparison.case for comparison in comparisons if comparison.injected),
    )


def decide_again(run: CalibrationRun) -> list[tuple[Comparison, Comparison]]:
    """Return each comparison, with the verdict from before the run withheld it, beside the one that the comparator
    makes of its samples now."""
    recorded = [
        replace(comparison, verdict=comparison.held_back or comparison.verdict) for comparison in run.report.comparisons
    ]
    return list(zip(recorded, analysis_of(run).comparisons(), strict=True))
