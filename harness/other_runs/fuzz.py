"""Inputs that nobody chose: drawn, tried on the control, measured; and those that differ made as small as can be."""

import math
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.frameworks import Framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.harness.specs.strategies import Drawn, case_of, drawn, examples
from opduel.harness.specs.template import Template, templates
from opduel.records import DEFAULT_METRIC, Build, Case, Comparison, RunError, case_id_for

SPARE = 2  # draws for each input that is wanted: some are refused
STEPS = 12  # of shrinking
DIFFERENT = ("regressed", "improved", "failed")

Measure = Callable[[Sequence[Case]], Mapping[str, Comparison]]


@dataclass(frozen=True)
class Finding:
    """Sizes on which the two builds differ, as a case, and what was measured on it."""

    drawn: Drawn
    case: Case
    comparison: Comparison

    @property
    def weight(self) -> float:
        """How much the builds differ: infinite where one fails, else the size of the log ratio."""
        ratio = self.comparison.ratio
        if self.comparison.failure is not None or ratio is None:
            return math.inf
        return abs(math.log(ratio)) if ratio > 0 else math.inf


def draw_cases(
    cases: Sequence[Case], count: int, seed: int, control: Build, framework: Framework, env: Mapping[str, str]
) -> list[tuple[Drawn, Sequence[Case]]]:
    """Draw ``count`` inputs for the operators of ``cases``, drawn from ``seed``; each as a case for every metric.

    They take turns over operators, directions and kinds of arguments, without those that the control refuses. Raises
    RunError: none of what was drawn runs on the control, or that can't be started.
    """
    metrics: dict[str, list[Case]] = {}
    for case in cases:
        metrics.setdefault(case.time_id, []).append(case)

    def of_metric(case: Case, like: Case) -> Case:  # the drawn case, measured by the metric of ``like``
        return replace(like, id=case_id_for(like.metric, case.id), inputs=case.inputs)

    shuffled = templates([replace(group[0], metric=DEFAULT_METRIC, id=key) for key, group in metrics.items()])
    random.Random(f"templates {seed}").shuffle(shuffled)
    draws: list[tuple[Drawn, Case]] = []
    for number, template in enumerate(shuffled):  # as evenly as can be
        if input_count := count // len(shuffled) + (number < count % len(shuffled)):
            draws += _accepted(template, input_count, seed, len(draws), control, framework, env)
    if not draws:
        raise RunError(
            "--fuzz: nothing could be drawn that the control takes: choose other operators, or smaller inputs"
        )
    return [(draw, [of_metric(case, like) for like in metrics[draw.template.like.id]]) for draw, case in draws]


def _accepted(
    template: Template,
    input_count: int,
    seed: int,
    first: int,
    control: Build,
    framework: Framework,
    env: Mapping[str, str],
) -> list[tuple[Drawn, Case]]:
    """Return up to ``input_count`` draws that the control does not refuse; a crash or a hang is no refusal."""
    number = zlib.crc32(f"{seed} {template.like.id}".encode())  # like operators must not all get the same sizes
    draws = examples(drawn(template), SPARE * input_count, number)
    cases = [case_of(draw, first + number) for number, draw in enumerate(draws)]
    accepted: list[tuple[Drawn, Case]] = []
    for draw, attempt in zip(draws, smoke_check(control, framework, cases, seed=seed, env=env), strict=True):
        if attempt.failure is None or attempt.failure.kind not in ("error", "missing"):
            accepted.append((draw, attempt.case))
        if len(accepted) == input_count:
            break
    return accepted


def findings(draws: Sequence[tuple[Drawn, Sequence[Case]]], comparisons: Mapping[str, Comparison]) -> list[Finding]:
    """Return where the builds differ, the largest difference first. What fails on both sides is none."""
    differences = [
        Finding(draw, case, comparisons[case.id]) for draw, cases in draws for case in cases if case.id in comparisons
    ]
    return sorted(
        (finding for finding in differences if _is_difference(finding.comparison)), key=lambda finding: -finding.weight
    )


def first_of_each_kind(findings_of_run: Sequence[Finding]) -> list[Finding]:
    """Return the first finding of each template and metric."""
    kinds: dict[tuple[str, str], Finding] = {}
    for finding in findings_of_run:
        kinds.setdefault((finding.drawn.template.like.id, finding.case.metric), finding)
    return list(kinds.values())


def _is_difference(comparison: Comparison) -> bool:
    return comparison.verdict in DIFFERENT and (comparison.failure is None or comparison.failure.side != "both")


def shrink(differences: Sequence[Finding], measure: Measure, steps: int = STEPS) -> list[Finding]:
    """Return the findings on the smallest sizes that still show them, each shown by a measurement of its own.

    In every step each finding tries its next smaller sizes, all in one measurement.  Hypothesis' own shrinker takes a
    test to give the same answer each time, which a measurement doesn't.  ``measure`` gives the comparisons of cases by
    id.
    """
    current = list(differences)
    waiting = [smaller(finding.drawn) for finding in current]
    for _ in range(steps):
        tried = {place: queue.pop(0) for place, queue in enumerate(waiting) if queue}
        if not tried:
            break
        cases = {place: replace(current[place].case, inputs=draw.inputs) for place, draw in tried.items()}
        comparisons = measure(list(cases.values()))
        if not comparisons:
            break
        for place, case in cases.items():
            comparison = comparisons.get(case.id)
            if comparison is not None and _same_outcome(comparison, current[place].comparison):
                current[place] = Finding(tried[place], case, comparison)
                waiting[place] = smaller(tried[place])
    return current


def smaller(draw: Drawn) -> list[Drawn]:
    """Return what to try in its place: all sizes 1, all halved, then one size alone 1 or halved; nothing stretched
    last."""
    sizes = draw.sizes
    proposals = [tuple(1 for _ in sizes), tuple(max(1, size // 2) for size in sizes)]
    for place, size in enumerate(sizes):
        for less in (1, size // 2, size - 1):
            if 1 <= less < size:
                proposals.append((*sizes[:place], less, *sizes[place + 1 :]))
    different = [proposal for proposal in dict.fromkeys(proposals) if proposal != sizes]
    return [replace(draw, sizes=proposal) for proposal in different]


def _same_outcome(comparison: Comparison, before: Comparison) -> bool:
    sides = [either.failure.side if either.failure else None for either in (comparison, before)]
    return comparison.verdict == before.verdict and sides[0] == sides[1]
