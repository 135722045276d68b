"""What the formats have in common: cases and samples that they take, names on one line, facts about run and builds."""

import hashlib
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from opduel.records import Build, Comparison, PairSample, Report, verdict_words
from opduel.records.measurement import Side
from opduel.reporters.run_text import commit_moment, is_number
from opduel.reporters.text import printable

Fact = str | int | float


@dataclass(frozen=True)
class Rendered:
    """A report in some format. ``left_out`` says in words which cases the format can't hold; empty if it holds all."""

    text: str
    left_out: str = ""


def kept_cases(report: Report, why_not: Callable[[Comparison], str]) -> tuple[list[Comparison], str]:
    """The cases that a format can hold, and how many were left out for which reason: ``3 failed, 1 without samples``.

    ``why_not`` gives the reason for one case, empty if the format can hold it.
    """
    reasons = [(one, why_not(one)) for one in report.comparisons]
    counts = Counter(reason for _, reason in reasons if reason).most_common()
    return [one for one, reason in reasons if not reason], ", ".join(f"{count} {reason}" for reason, count in counts)


def deciding_samples(comparison: Comparison) -> list[PairSample]:
    """Return the samples that the comparison's figures rest on, in the order of measuring.

    A pair of which a value is no finite number is left out on both sides: the sides keep equal counts.
    """
    return [
        sample for sample in comparison.samples if math.isfinite(sample.control) and math.isfinite(sample.treatment)
    ]


def side_values(samples: Iterable[PairSample], side: Side) -> list[float]:
    """The process values of one side, in the comparison's unit."""
    return [float(getattr(sample, side)) for sample in samples]


def why_without_samples(comparison: Comparison) -> str:
    """Why a format of single values has no place for the case, in words that follow a number; empty if it has one."""
    if comparison.verdict == "failed":
        return "failed"
    return "" if deciding_samples(comparison) else f"without samples ({one_line(comparison.metric)})"


def why_without_value(comparison: Comparison) -> str:
    """The same for a format of one value a case, the treatment's."""
    if comparison.verdict == "failed":
        return "failed"
    return "" if is_number(comparison.treatment) else f"without a value ({one_line(comparison.metric)})"


def quartiles(values: Sequence[float]) -> tuple[float, float] | None:
    """The ends of the middle half of the values; None for fewer than two."""
    if len(values) < 2:
        return None
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, upper


def one_line(text: Any) -> str:
    """A text from outside on one line, without what a terminal, XML or JSON minds; ``-`` for an empty one."""
    return printable(str(text)).strip() or "-"


def note(one: Comparison) -> str | None:
    """The case's note on one line; None if it has none."""
    return one_line(one.note) if one.note.strip() else None


def figure_lines(one: Comparison, names: Iterable[str]) -> str:
    """The figures of these names that the case has, unrounded, a line each; verdicts in the words of people."""
    figures = {name: getattr(one, name) for name in names}
    for name in figures.keys() & {"verdict", "held_back"}:
        figures[name] = figures[name] and verdict_words(figures[name], one.metric)
    figures |= {"ci": f"{one.ci[0]} to {one.ci[1]}" if one.ci else None, "note": note(one)}
    shown = {name: one_line(value) if isinstance(value, str) else value for name, value in figures.items()}
    return "\n".join(f"{name}: {value}" for name, value in shown.items() if value is not None)


def _unique(names: Sequence[str]) -> list[str]:
    """The names, in their order; a later one that was there already gets ``#2``, ``#3``... behind it."""
    times: dict[str, int] = {}
    taken: set[str] = set()
    result = []
    for name in names:
        found = name
        while found in taken:
            times[name] = times.get(name, 1) + 1
            found = f"{name}#{times[name]}"
        taken.add(found)
        result.append(found)
    return result


def unique_names(comparisons: Sequence[Comparison], legal: Callable[[str], str] = one_line) -> list[str]:
    """A name for each case: its id made ``legal``, and unique even in a foreign report whose ids are not."""
    return _unique([legal(one.case) for one in comparisons])


def names_over_metrics(comparisons: Sequence[Comparison], legal: Callable[[str], str]) -> list[str]:
    """A name for each case, the same for all metrics of one, and unique among the cases of one metric."""
    names: dict[int, str] = {}
    for metric in {one.metric for one in comparisons}:
        mine = [one for one in comparisons if one.metric == metric]
        found = _unique([legal(one.case.removesuffix(f"/{metric}")) for one in mine])
        names |= {id(one): name for one, name in zip(mine, found, strict=True)}
    return [names[id(one)] for one in comparisons]


def cut(text: str, size: int) -> str:
    """``text`` in at most ``size`` bytes of UTF-8 (20 or more); a digest of the whole stands behind what was cut."""
    if len(text.encode()) <= size:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text.encode()[: size - 13].decode(errors='ignore')}-{digest}"


def run_facts(report: Report) -> dict[str, Fact]:
    """What was run, and where; without what isn't known. Numbers stay numbers, texts are on one line."""
    run, host = report.run, report.host
    return _known(
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
    """Which build a side was; without what isn't known."""
    commit = build.commit
    return _known(
        build=build.requested,
        framework_version=build.version,
        python_version=build.python or None,
        build_digest=build.digest,
        commit_id=commit and commit.id,
        commit_date=commit and commit_moment(commit),
        commit_subject=commit and commit.subject,
    )


def _known(**facts: Any) -> dict[str, Fact]:
    known: dict[str, Fact] = {}
    for name, value in facts.items():
        if value in (None, "") or isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            continue
        known[name] = value if isinstance(value, int | float) else one_line(value)
    return known
