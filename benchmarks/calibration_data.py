"""The raw results of calibrate.py: a line of JSON for each run, with all that its tables are made of, and its samples.

From the samples the comparator makes the same verdicts again, which ``verdicts_again`` does.  The first lines
of the files have neither a time nor a commit, and no ``nice``; lines are in the order in which they were made.
"""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opduel.comparator import Bias, compare_cases, plan_looks, standing_cases, withhold_verdicts
from opduel.records import USUAL_ROUNDS, Build, Case, Comparison, Failure, PairSample, Report, UsageError
from opduel.records.measurement import STAGES, Stage
from opduel.records.run_record import HostRecord, RunRecord

SCHEMA_VERSION = 1
OF_THE_SUITE = ("commit", "digest")
OF_THE_RUN = ("spec", "seed", "started", "complete", "aborted", "wall_s", "timed_s", "noise", "expected_s")
DIGITS = 6  # of process values and log ratios: a millionth of each is far less than a clock can tell


@dataclass(frozen=True)
class Step:
    """One run to make: ``inject`` and ``threshold`` are shares; ``number`` counts the runs of a row from 1. ``load`` is
    what runs beside it."""

    inject: float
    threshold: float
    number: int
    load: str

    @property
    def name(self) -> str:
        """Which no other step of any plan has."""
        return f"{self.inject * 100:g}%-at-{self.threshold * 100:g}%-{self.load}-{self.number}"


@dataclass(frozen=True)
class Trial:
    """A run that was made: its step, the options that harness.py got besides, the report, as far as it was kept."""

    step: Step
    options: tuple[str, ...]
    report: Report

    @property
    def of(self) -> tuple[str, str, tuple[str, ...]]:
        """What all trials of one file have in common: build, spec or suite, options."""
        return self.report.control.requested, self.subject, self.options

    @property
    def subject(self) -> str:
        """The spec's name, or the suite's and the digest of its files: ``numpy's suite, 3f1c299b8ed2``."""
        spec, suite = str(self.report.run.spec), self.report.run.suite
        return f"{spec}'s suite, {suite.digest[:12]}" if suite else spec


def line_of(step: Step, options: Sequence[str], report: Report, commit: str | None) -> str:
    """The line, without its end, for a run that was made by opduel at ``commit``."""
    run, host = report.run, report.host
    suite = run.get("suite")
    kept = {
        "schema_version": SCHEMA_VERSION,
        "step": vars(step),
        "options": list(options),
        "build": report.control.requested,
        "version": report.control.version,
        "commit": commit,
        "run": {
            **{key: run.get(key) for key in OF_THE_RUN},
            **({"suite": {key: suite.get(key) for key in OF_THE_SUITE}} if suite else {}),
        },
        "nice": run.cpus.nice,
        "max_rounds": report.run.get("max_rounds"),
        "alpha": report.configuration.alpha,
        "validity": {
            "valid": run.validity.valid,
            "hold": run.validity.hold,
            "reasons": list(run.validity.reasons),
            "aa_checks": [{"flagged": one.flagged, "ratio": one.ratio} for one in run.validity.aa_checks],
        },
        "host": {key: host.get(key) for key in ("cpu_model", "logical_cpus", "kernel", "hypervisor")},
        "load": {key: (host.get("during") or {}).get(key) for key in ("neighbours", "stolen", "memory_pressure")},
        "comparisons": [_comparison(one) for one in report.comparisons],
    }
    return json.dumps(kept, separators=(",", ":"), allow_nan=False)


def _comparison(one: Comparison) -> dict[str, Any]:
    samples = {stage: [_sample(sample) for sample in one.samples if sample.stage == stage] for stage in STAGES}
    return {
        "case": one.case,
        "injected": one.injected,
        "verdict": one.verdict,
        "held_back": one.held_back,
        "ratio": one.ratio and _rounded(one.ratio),
        "ci": one.ci and [_rounded(end) for end in one.ci],
        "reason": one.failure and one.failure.reason,
        **{stage: values for stage, values in samples.items() if values},
    }


def _sample(sample: PairSample) -> list[Any]:
    """Its values; and of one that was measured in blocks how many, and each fork's log ratio and standard error."""
    values = [_rounded(sample.control), _rounded(sample.treatment), _rounded(sample.log_ratio)]
    forks = [[_rounded(ratio), _rounded(standard_error)] for ratio, standard_error in sample.fork_ratios]
    return [*values, sample.blocks, forks] if forks else values


def _rounded(value: float) -> float:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short  # "712345", not "712345.0"


def read(path: Path, option: str = "--data") -> list[Trial]:
    """What the file has, which ``option`` named; nothing if there is none. A last line without an end was cut off when
    a run was killed.

    Raises:
        UsageError: it can't be read, or a line of it is none of ours.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{option} {path}: can't be read ({error}): give another file") from None
    trials = []
    for number, line in enumerate(lines, start=1):
        try:
            trials.append(_trial(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{option} {path}: line {number} is no run of calibrate.py ({error!r}): delete it"
            ) from None
    return trials


def _trial(kept: Mapping[str, Any]) -> Trial:
    if kept["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema_version {kept['schema_version']}")
    step = Step(**kept["step"])
    build = Build("", kept["build"], "release", "", kept["version"], "", "")
    run = RunRecord(
        kept["run"],
        validity=kept["validity"],
        configuration={"max_rounds": kept["max_rounds"], "alpha": kept["alpha"], "inject": step.inject},
    )
    host = HostRecord(kept["host"], during=kept["load"])
    comparisons = tuple(_told(one, step.threshold) for one in kept["comparisons"])
    return Trial(step, tuple(kept["options"]), Report(run, build, build, host, comparisons))


def _told(one: Mapping[str, Any], threshold: float) -> Comparison:
    """The comparison, but for the figures that weren't kept."""
    case = one["case"]
    samples = tuple(
        _sample_of(case, stage, number, *values) for stage in STAGES for number, values in enumerate(one.get(stage, ()))
    )
    failure = Failure("both", "unknown", one["reason"]) if one["reason"] else None
    low_high = one["ci"] and (one["ci"][0], one["ci"][1])
    told = Comparison.without_figures(
        case_of(case, threshold), one["verdict"], samples=samples, failure=failure, injected=one["injected"]
    )
    return replace(told, ratio=one["ratio"], ci=low_high, held_back=one["held_back"])


def _sample_of(
    case: str,
    stage: Stage,
    number: int,
    control: float,
    treatment: float,
    log_ratio: float,
    blocks: int = 1,
    forks: Sequence[Sequence[float]] = (),
) -> PairSample:
    fork_ratios = tuple((ratio, standard_error) for ratio, standard_error in forks)
    return PairSample(
        case, stage, number, control, treatment, log_ratio, blocks, 1, max(1, len(forks)), fork_ratios=fork_ratios
    )


def case_of(name: str, threshold: float) -> Case:
    """The case, as far as statistics need it."""
    return Case(name, name.rpartition("/")[0], "forward", {}, "float32", "cpu", threshold, 60.0)


def verdicts_again(trial: Trial) -> list[tuple[Comparison, Comparison]]:
    """Each comparison beside the one that the comparator makes of its samples now.

    Of a run on a disturbed host that was to hold verdicts back, what does not stand is withheld, too. That the host was
    disturbed, and what A/A checks found, is taken from the run: what that was judged by was not kept.
    """
    report = trial.report
    cases = [case_of(one.case, one.threshold) for one in report.comparisons]
    samples = {one.case: one.samples for one in report.comparisons}
    failures = {one.case: one.failure for one in report.comparisons if one.failure}
    looks, alpha = plan_looks(report.configuration.max_rounds or USUAL_ROUNDS), report.configuration.alpha
    injected = frozenset(one.case for one in report.comparisons if one.injected)
    again = compare_cases(cases, samples, failures, looks, alpha, injected)
    validity = report.run.validity
    if validity.valid is False and validity.hold is not False:
        checks = validity.aa_checks
        loaded = len(validity.reasons) > sum(one.flagged for one in checks)  # each that is flagged is a reason
        standing = standing_cases(cases, samples, failures, looks, alpha, loaded=loaded, bias=Bias.of(checks))
        again = withhold_verdicts(again, standing, "made again")
    return list(zip(report.comparisons, again, strict=True))


def single_pairs(trials: Iterable[Trial]) -> dict[str, list[float]]:
    """Case -> the log ratios of its single process pairs in the first measurement, of the runs in which it was not
    slowed: what a tool sees that has one pair, where the truth is 0."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        for one in trial.report.comparisons:
            ratios = [sample.log_ratio for sample in one.samples if sample.stage == STAGES[0]]
            if ratios and not one.injected:
                found.setdefault(one.case, []).extend(ratios)
    return found


def noisiest(pairs: Mapping[str, Sequence[float]], most: int, fewest: int = 12) -> list[str]:
    """The ``most`` cases whose single pairs differ most (standard deviation of log ratios), of those with ``fewest``
    pairs or more, the noisiest first."""
    spread = {case: statistics.pstdev(ratios) for case, ratios in pairs.items() if len(ratios) >= fewest}
    return sorted(spread, key=lambda case: (-spread[case], case))[:most]
