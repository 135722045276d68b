"""Common parts of the formats: the cases and samples that they take, names on one line, facts about run and builds."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opduel.records import Build, Comparison, PairSample, Report, verdict_words
from opduel.records.measurement import Side
from opduel.reporters.run_text import is_number
from opduel.reporters.text import printable

Fact = str | int | float


def kept_cases(report: Report, why_not: Callable[[Comparison], str]) -> tuple[list[Comparison], str]:
    """Return the cases that a format can hold, and how many were left out for which reason: ``3 failed, 1 without
    samples``.

    ``why_not`` gives the reason for one case, empty if the format can hold it.
    """
    reasons = [(comparison, why_not(comparison)) for comparison in report.comparisons]
    counts = Counter(reason for _, reason in reasons if reason).most_common()
    left_out = ", ".join(f"{count} {reason}" for reason, count in counts)
    return [comparison for comparison, reason in reasons if not reason], left_out


def deciding_samples(comparison: Comparison) -> list[PairSample]:
    """Return the samples that the comparison's figures rest on, in the order of measuring.

    A pair of which a value is no finite number is left out on both sides: the sides keep equal counts.
    """
    return [
        sample for sample in comparison.samples if math.isfinite(sample.control) and math.isfinite(sample.treatment)
    ]


def side_values(samples: Iterable[PairSample], side: Side) -> list[float]:
    """Return the process values of one side, in the comparison's unit."""
    return [float(getattr(sample, side)) for sample in samples]


def why_without_samples(comparison: Comparison) -> str:
    """Return why a format of single values can't hold the case, in words that follow a number; empty if it can."""
    if comparison.verdict == "failed":
        return "failed"
    return "" if deciding_samples(comparison) else f"without samples ({one_line(comparison.metric)})"


def why_without_value(comparison: Comparison) -> str:
    """Return why a format of one value per case, the treatment's, can't hold the case; empty if it can."""
    if comparison.verdict == "failed":
        return "failed"
    return "" if is_number(comparison.treatment) else f"without a value ({one_line(comparison.metric)})"


def quartiles(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the lower and upper quartile; None for fewer than two values."""
    if len(values) < 2:
        return None
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def one_line(text: Any) -> str:
    """Return a text on one line without characters that disturb a terminal, XML or JSON; ``-`` for an empty one."""
    return printable(str(text)).strip() or "-"


def note(comparison: Comparison) -> str | None:
    """Return the case's note on one line; None if it has none."""
    return one_line(comparison.note) if comparison.note.strip() else None


def figure_lines(comparison: Comparison, names: Iterable[str]) -> str:
    """Return the named figures that the case has, unrounded, a line each, with verdicts in words."""
    figures = {name: getattr(comparison, name) for name in names}
    for name in figures.keys() & {"verdict", "held_back"}:
        figures[name] = figures[name] and verdict_words(figures[name], comparison.metric)
    figures |= {"ci": f"{comparison.ci[0]} to {comparison.ci[1]}" if comparison.ci else None, "note": note(comparison)}
    text_by_name = {name: one_line(value) if isinstance(value, str) else value for name, value in figures.items()}
    return "\n".join(f"{name}: {value}" for name, value in text_by_name.items() if value is not None)


def named_cases(
    report: Report,
    why_not: Callable[[Comparison], str] = lambda _: "",
    legal: Callable[[str], str] = one_line,
    over_metrics: bool = False,
) -> tuple[list[tuple[Comparison, str]], str]:
    """Return the cases that a format can hold (see ``kept_cases``), each with its name, and what was left out.

    A name is the case's id made ``legal``. With ``over_metrics`` the metrics of a case share its name.
    """
    comparisons, left_out = kept_cases(report, why_not)
    named = []
    for comparison in comparisons:
        name = comparison.case.removesuffix(f"/{comparison.metric}") if over_metrics else comparison.case
        named.append((comparison, legal(name)))
    return named, left_out


def run_facts(report: Report) -> dict[str, Fact]:
    """Return the known facts of the run and its host. Numbers stay numbers, texts are on one line."""
    run, host = report.run, report.host
    return _drop_unknown(
        run_id=run.id,
        started=run.started,
        spec=run.spec,
        framework=run.framework,
        target_platform=report.configuration.platform,
        seed=run.seed,
        threads=report.configuration.threads,
        alpha=report.configuration.alpha,
        process_pairs=run.rounds,
        wall_s=run.wall_s,
        cpu_model_name=host.cpu_model,
        cpu_count=host.logical_cpus,
        kernel=host.kernel,
    )


def build_facts(build: Build) -> dict[str, Fact]:
    """Return the known facts of a side's build."""
    commit = build.commit
    return _drop_unknown(
        build=build.requested,
        framework_version=build.version,
        python_version=build.python or None,
        build_digest=build.digest,
        commit_id=commit and commit.id,
        commit_date=commit and commit.moment,
        commit_subject=commit and commit.subject,
    )


def _drop_unknown(**facts: Any) -> dict[str, Fact]:
    valid_facts: dict[str, Fact] = {}
    for name, value in facts.items():
        if value in (None, "") or isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            continue
        valid_facts[name] = value if isinstance(value, int | float) else one_line(value)
    return valid_facts
