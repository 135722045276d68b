"""What more process pairs would find: the pairs that were seen, drawn again and again through the real decisions."""

import math
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opduel.comparator import RunAnalysis, plan_looks
from opduel.comparator.calibration import Rate
from opduel.comparator.trimmed_mean import estimate_trimmed_mean
from opduel.records import Case, PairSample, Report, Stage

POWER = 0.8  # a change counts as one that is found when this share of the changed cases is
SHARES = (0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5)  # changes to choose from
FEWEST_PAIRS = 5  # of a case, to draw from
CHANGED_CASES = 100  # simulated for each answer, at least


@dataclass(frozen=True)
class CasePairs:
    """The log ratios of one case's process pairs, freed of their run's mean."""

    case: Case
    log_ratios: tuple[float, ...]

    def drawn(self, stage: Stage, count: int, change: float, rng: random.Random) -> list[PairSample]:
        """Draw so many samples, the treatment's changed by a log ratio of ``change``."""
        return [
            PairSample(self.case.id, stage, 0, 1.0, math.exp(ratio + change), ratio + change, 1, 1)
            for ratio in rng.choices(self.log_ratios, k=count)
        ]


@dataclass(frozen=True)
class PowerForecast:
    """What runs of ``max_rounds`` would find: the smallest of the shares that ``POWER`` of the changed cases show; None
    when it is none of them. ``seconds_a_case``: of wall time."""

    max_rounds: int
    share: float | None
    threshold: float | None
    detected: Rate | None
    seconds_a_case: float | None


def threshold_for(share: float, threshold: float | None = None) -> float:
    """Return the threshold with which a change of ``share`` is looked for, unless one is given: a quarter of it, but
    2 % from 5 % on."""
    if threshold is not None:
        return threshold
    return 0.02 if share >= 0.05 else share / 4


def pairs_of_cases(reports: Iterable[Report]) -> list[CasePairs]:
    """Return how each case's pairs scatter, over all runs; cases with fewer than ``FEWEST_PAIRS`` are left out. Each
    run's pairs are taken about their own trimmed mean, and widened by sqrt(n / (n - 1)) for it: a bias that lasts for a
    run is not in the forecast."""
    log_ratios: dict[str, list[float]] = defaultdict(list)
    cases: dict[str, Case] = {}
    for report in reports:
        for comparison in report.comparisons:
            id, operator, threshold = comparison.case, comparison.operator, comparison.threshold
            cases[id] = Case(id, operator, "forward", {}, "", "", threshold, 1.0, comparison.metric)
            log_ratios[id] += _centred(comparison.samples)
    return [CasePairs(cases[id], tuple(row)) for id, row in log_ratios.items() if len(row) >= FEWEST_PAIRS]


def _centred(samples: Sequence[PairSample]) -> list[float]:
    if len(samples) < 2:
        return []
    widen = math.sqrt(len(samples) / (len(samples) - 1))
    middle = estimate_trimmed_mean([sample.log_ratio for sample in samples]).estimate
    return [widen * (sample.log_ratio - middle) for sample in samples]


def simulate(
    cases: Sequence[CasePairs], share: float, threshold: float, max_rounds: int, alpha: float, rng: random.Random
) -> tuple[Rate, float]:
    """Return, of simulated runs in which every second case is slower by ``share``, the cases found, and pairs a
    case."""
    runs = math.ceil(CHANGED_CASES / max(1, len(cases) // 2))
    looks = plan_looks(max_rounds)
    count = of = pairs = 0
    measured = [replace(case_pairs.case, threshold=threshold) for case_pairs in cases]
    noise = {case_pairs.case.id: case_pairs for case_pairs in cases}
    for _ in range(runs):
        changed = {case_pairs.case.id for case_pairs in rng.sample(list(cases), max(1, len(cases) // 2))}
        samples: dict[str, list[PairSample]] = {case_id: [] for case_id in noise}
        analysis = RunAnalysis(measured, samples, {}, looks, alpha)
        while open_cases := {id: interim for id, interim in analysis.interim().items() if interim.samples_needed}:
            for case_id, interim in open_cases.items():
                change = math.log1p(share) if case_id in changed else 0.0
                samples[case_id] += noise[case_id].drawn(interim.stage, interim.samples_needed, change, rng)
        verdicts = analysis.comparisons()
        count += sum(comparison.verdict == "regressed" for comparison in verdicts if comparison.case in changed)
        of += len(changed)
        pairs += sum(comparison.rounds for comparison in verdicts)
    return Rate(count, of), pairs / (runs * len(cases))


def forecast_power(
    cases: Sequence[CasePairs],
    max_rounds: int,
    alpha: float,
    seconds_a_pair: float,
    rng: random.Random,
    threshold: float | None = None,
) -> PowerForecast:
    """Return the smallest of ``SHARES`` that runs of ``max_rounds`` find, by bisection. ``seconds_a_pair``: wall time
    that one process pair of one case takes.  ``threshold``: that of all runs; None for ``threshold_for`` each share."""
    shares = [share for share in SHARES if threshold is None or share > threshold]
    answers: dict[int, tuple[Rate, float]] = {}

    def finds(place: int) -> bool:
        share = shares[place]
        answers[place] = simulate(cases, share, threshold_for(share, threshold), max_rounds, alpha, rng)
        return (answers[place][0].share or 0) >= POWER

    place = bisect_left(range(len(shares)), True, key=finds)
    if place == len(shares):
        return PowerForecast(max_rounds, None, None, None, None)
    detected, pairs = answers[place]
    return PowerForecast(
        max_rounds, shares[place], threshold_for(shares[place], threshold), detected, pairs * seconds_a_pair
    )
