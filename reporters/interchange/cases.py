"""What the formats have in common: which samples stand for a case, names on one line, facts about run and builds."""

import hashlib
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opduel.records import Build, Commit, Comparison, PairSample, Report
from opduel.records.measurement import Side
from opduel.reporters.run_text import is_number
from opduel.reporters.text import printable

Fact = str | int | float


def deciding_samples(comparison: Comparison) -> list[PairSample]:
    """The samples of the stage that gave the comparison's figures, in the order of measuring.

    A pair of which a value is no finite number is left out on both sides: the sides keep equal counts.
    """
    stage = comparison.decided_on or "screening"
    return [
        sample
        for sample in comparison.samples
        if sample.stage == stage and math.isfinite(sample.control) and math.isfinite(sample.treatment)
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


def unique(names: Sequence[str]) -> list[str]:
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
    return unique([legal(one.case) for one in comparisons])


def names_over_metrics(comparisons: Sequence[Comparison], legal: Callable[[str], str]) -> list[str]:
    """A name for each case, the same for all metrics of one, and unique among the cases of one metric."""
    names: dict[int, str] = {}
    for metric in {one.metric for one in comparisons}:
        mine = [one for one in comparisons if one.metric == metric]
        found = unique([legal(one.case.removesuffix(f"/{metric}")) for one in mine])
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
    run, asked, host = report.run, report.configuration, report.host
    known = {
        "run_id": run.id,
        "started": run.started,
        "spec": run.spec,
        "framework": run.framework,
        "target_platform": asked.platform,
        "seed": run.seed,
        "threads": asked.threads,
        "alpha": asked.alpha,
        "process_pairs": run.rounds,
        "wall_s": run.wall_s,
        "cpu_model_name": host.cpu_model,
        "cpu_count": host.logical_cpus,
        "kernel": host.kernel,
    }
    return _facts(known)


def build_facts(build: Build) -> dict[str, Fact]:
    """Which build a side was; without what isn't known."""
    commit = build.commit
    known = {
        "build": build.requested,
        "framework_version": build.version,
        "python_version": build.python,
        "build_digest": build.digest,
        "commit_id": commit and commit.id,
        "commit_date": commit and _moment(commit),
        "commit_subject": commit and commit.subject,
    }
    return _facts(known)


def _facts(known: dict[str, Any]) -> dict[str, Fact]:
    return {name: _fact(value) for name, value in known.items() if _is_known(value)}


def _fact(value: Any) -> Fact:
    return value if isinstance(value, int | float) else one_line(value)


def _is_known(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is not None and value != "" and not isinstance(value, bool)


def _moment(commit: Commit) -> str | None:
    """A foreign report may have none."""
    try:
        return commit.moment
    except (OverflowError, ValueError, OSError):
        return None
