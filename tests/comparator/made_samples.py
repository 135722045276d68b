"""Cases and samples made for the tests, and a scheduler that measures them as the harness would."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from opduel.comparator import Looks, RunAnalysis
from opduel.records import Case, PairSample, Stage

LooksNow = Callable[[str, Stage], PairSample]


def a_case(name: str = "a", threshold: float = 0.02, metric: str = "time") -> Case:
    """A case of which only id, threshold and metric matter here."""
    return Case(name, "nd.add", "forward", {}, "float32", "cpu", threshold, 60.0, metric)


def pair(case_id: str, stage: Stage, control: float, treatment: float, number: int = 0) -> PairSample:
    """A sample whose log ratio is that of its process values."""
    return PairSample(case_id, stage, number, control, treatment, math.log(treatment / control), 10, 1000)


def pairs(case_id: str, stage: Stage, log_ratios: Sequence[float], base: float = 1000.0) -> list[PairSample]:
    """Samples with these log ratios; the control's values differ, so that there are no ties."""
    samples = []
    for number, log_ratio in enumerate(log_ratios):
        control = base * (1 + 1e-4 * ((7 * number) % 11))
        samples.append(pair(case_id, stage, control, control * math.exp(log_ratio), number))
    return samples


def in_stages(case_id: str, log_ratios: Sequence[float], screened: int = 5) -> list[PairSample]:
    """Samples of a case that became a suspect after so many of them."""
    first, later = log_ratios[:screened], log_ratios[screened:]
    return [*pairs(case_id, "screening", first), *pairs(case_id, "confirmation", later)]


def noisy(rng: np.random.Generator, n: int, change: float = 0.0, sd: float = 0.02) -> list[float]:
    """``n`` log ratios around a change (a share)."""
    return [float(value) for value in rng.normal(math.log1p(change), sd, n)]


class Machine:
    """Measures cases of known change and noise: process values normal, now and then far off."""

    def __init__(
        self, rng: np.random.Generator, changes: Sequence[float], sds: Sequence[float], strays: float = 0.04
    ) -> None:
        self.rng = rng
        self.strays = strays
        self.shift = {f"c{i}": math.log1p(change) for i, change in enumerate(changes)}
        self.sd = dict(zip(self.shift, sds, strict=True))

    def __call__(self, case_id: str, stage: Stage) -> PairSample:
        off = (self.rng.random(2) < self.strays) * np.abs(self.rng.normal(0, 0.35, 2))
        control, treatment = self.rng.normal(0, self.sd[case_id], 2) + off
        return pair(case_id, stage, math.exp(control), math.exp(treatment + self.shift[case_id]))


def measured(
    cases: Sequence[Case], measure: LooksNow, looks: Looks, alpha: float = 0.05
) -> dict[str, list[PairSample]]:
    """Samples as the harness would take them: every open case goes to its next look, until all are settled."""
    samples: dict[str, list[PairSample]] = {case.id: [] for case in cases}
    while True:
        interim = RunAnalysis(cases, samples, {}, looks, alpha).interim()
        if all(place.settled for place in interim.values()):
            return samples
        for case_id, place in interim.items():
            for _ in range(place.samples_needed):
                samples[case_id].append(measure(case_id, place.stage))
