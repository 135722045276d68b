"""The whole of a run beside noise of each level: what it decides, and that it costs little more than it has to.

Also of what that is measured by: the noise that the toy's simulated clock makes, and the costs by calculation.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from simulated_clock import SimulatedClock
from simulated_noise import (
    Design,
    SimulatedNoise,
    cheapest,
    mean_seconds,
    run_beside,
    seconds_of_fresh_pairs,
    simulate_costs,
)

from opduel.comparator import Looks
from opduel.harness.planning.effort import Costs, Noise
from opduel.records import FLAGGED

NS = 1e5  # of a simulated call
COSTS = Costs(quad_s=0.0025, prepare_s=0.0, beside_s=0.03, pair_s=0.1, overlaps=False)
# Times the least cost by calculation. The robust mean of a pair's forks costs some of what lies between them, and most
# where that has two modes; quads' variance is not known before it has been measured.
WITHIN = {"quiet": 1.5, "pairs": 1.5, "quads": 2.0, "forks": 2.0, "wandering": 2.0, "two modes": 3.0}


class Session:
    """Stands in for a worker's."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock

    def low_block(self, calls: int) -> float:
        began = self.clock.now
        for _ in range(calls):
            self.clock.take(NS)
        return (self.clock.now - began) / calls


class Workers:
    """Workers with simulated clocks, pair after pair on either side, in this process."""

    def __init__(self, noise: SimulatedNoise, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int = 1) -> None:
        folder.mkdir(exist_ok=True)
        monkeypatch.setenv("TOY_NOISE", noise.variables(folder, seed)["TOY_NOISE"])
        self._monkeypatch = monkeypatch

    def pair(self) -> dict[str, Session]:
        return {side: self._session(side) for side in ("control", "treatment")}

    def _session(self, side: str) -> Session:
        self._monkeypatch.setenv("TOY_SIDE", side)
        session_class = type("Session", (Session,), {})  # whose function the clock replaces
        return session_class(SimulatedClock(SimpleNamespace(timing=SimpleNamespace(), Session=session_class)))

    def fork(self, pair: dict[str, Session], quads: int, calls: int = 10) -> list[float]:
        """The log ratio of each quad of a new fork on either side."""
        for session in pair.values():
            session.clock.pid = None  # as if it had another one now
        ratios = []
        for _ in range(quads):
            control, treatment, again, last = (
                math.log(pair[side].low_block(calls)) for side in ("control", "treatment", "treatment", "control")
            )
            ratios.append((treatment + again - control - last) / 2)
        return ratios


def deviations(values: Sequence[Sequence[Sequence[float]]]) -> tuple[float, float, float]:
    """Standard deviations by level, of log ratios of quads by pair and fork: moments of nested means."""
    means = [[statistics.fmean(fork) for fork in pair] for pair in values]
    quad = statistics.fmean(statistics.variance(fork) for pair in values for fork in pair)
    within_pairs = statistics.fmean(statistics.variance(pair) for pair in means)
    between_pairs = statistics.variance(statistics.fmean(pair) for pair in means)
    fork = within_pairs - quad / len(values[0][0])
    pair = between_pairs - within_pairs / len(values[0])
    return math.sqrt(max(0.0, pair)), math.sqrt(max(0.0, fork)), math.sqrt(quad)


@pytest.mark.parametrize(
    "noise",
    [
        SimulatedNoise(pair=0.02, fork=0.01, quad=0.03),
        SimulatedNoise(quad=0.05),
        SimulatedNoise(fork=0.03),
        SimulatedNoise(pair=0.02),
        SimulatedNoise(modes=(0.3, 1.2)),
    ],
)
def test_each_level_of_the_simulated_noise_varies_as_it_should(
    noise: SimulatedNoise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers, values = Workers(noise, tmp_path, monkeypatch), []
    for _ in range(100):
        pair = workers.pair()
        values.append([workers.fork(pair, quads=6) for _ in range(6)])
    by_level = noise.variances
    expected = [math.sqrt(variance) for variance in (by_level.pair, by_level.fork, by_level.quad)]
    # By chance a standard deviation of 99 values and more is off by a fifth once in 200 times; the seed is fixed.
    assert deviations(values) == pytest.approx(expected, rel=0.2, abs=0.005)


def test_the_same_seed_makes_the_same_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = SimulatedNoise(pair=0.02, fork=0.01, quad=0.03, wandering=(1.7, 0.05))
    runs = []
    for number, seed in enumerate((1, 1, 2)):
        workers = Workers(noise, tmp_path / str(number), monkeypatch, seed)
        pair = workers.pair()
        runs.append([workers.fork(pair, quads=3) for _ in range(2)])
    assert runs[0] == runs[1] != runs[2]
    assert runs[0][0] != runs[0][1]


def test_both_sides_are_slow_in_the_same_turns_of_a_wandering_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = Workers(SimulatedNoise(fork=0.0, quad=0.0, wandering=(1.7, 0.05)), tmp_path, monkeypatch)
    pair = workers.pair()
    quads_seen = []  # of each quad: whether its first and its last blocks were slow, and the log ratio
    for _ in range(1500):
        before = pair["treatment"].clock.speed.factor()
        (ratio,) = workers.fork(pair, quads=1, calls=20)  # of 8 to 14 ms
        quads_seen.append((before > 1, pair["control"].clock.speed.factor() > 1, ratio))
    assert 0.3 < statistics.fmean(slow for _, slow, _ in quads_seen) < 0.8
    assert 4 < sum(before != after for before, after, _ in quads_seen) < 150, "turns of 0.1 to 3 s in some 15 s"
    assert max(abs(ratio) for before, after, ratio in quads_seen if not before and not after) < 0.005
    assert statistics.stdev(ratio for before, after, ratio in quads_seen if before and after) == pytest.approx(
        0.05, rel=0.2
    )


def test_the_optimum_is_that_of_kalibera_and_jones() -> None:
    """Where many forks are needed, a fork has sqrt(cost of a fork / of a quad * variance of a quad / of a fork) quads;
    and where noise is small, as few pairs as there may be."""
    noise, looks = Noise(quad=0.05**2, fork=0.02**2, pair=0.001**2), Looks((5, 9, 15))
    best = cheapest(noise, COSTS, looks)
    quads = math.sqrt(COSTS.beside_s / COSTS.quad_s * noise.quad / noise.fork)
    assert best.quads == pytest.approx(quads, rel=0.35)
    assert best.standard_error(noise) <= 0.0198 / (2.24 + 1.645)
    assert cheapest(Noise(1e-8, 1e-8, 1e-8), COSTS, looks) == Design(5, 1, 1)
    assert seconds_of_fresh_pairs(COSTS, looks) == pytest.approx(4 * (0.1 + 0.03 + 0.0025))


LONG = Costs(quad_s=0.018, prepare_s=0.0, beside_s=0.03, pair_s=0.1, overlaps=False)
GRID = {
    "quiet": (SimulatedNoise(), 2000, COSTS),
    "quads": (SimulatedNoise(quad=0.05), 2000, COSTS),
    "forks": (SimulatedNoise(fork=0.03), 2000, COSTS),
    "pairs": (SimulatedNoise(pair=0.012), 2000, COSTS),
    "wandering": (SimulatedNoise(wandering=(1.7, 0.06)), 50_000, LONG),  # calls of 1.5 ms, so that a run has many turns
    "two modes": (SimulatedNoise(modes=(0.5, 1.04)), 2000, COSTS),
}


@pytest.mark.many_forks
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ("quiet", "quads", "pairs") else pytest.mark.nightly) for name in GRID],
)
def test_a_run_decides_rightly_at_little_more_than_the_least_cost(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise, turns, costs = GRID[name]
    simulate_costs(monkeypatch, costs)
    cases = 24 if name == "quads" else 8  # of eight the mean is 1.5 to 2.1 times the least cost, as the noise is drawn
    report = run_beside(noise, tmp_path, same=cases, slowed=3, turns=turns)
    same = [comparison for comparison in report.comparisons if comparison.case.startswith("same")]
    slowed = [comparison for comparison in report.comparisons if comparison.case.startswith("slowed")]
    assert not [comparison.case for comparison in same if comparison.verdict in FLAGGED]
    assert not [comparison.case for comparison in same if comparison.verdict == "inconclusive"]
    assert {comparison.verdict for comparison in slowed} == {"regressed"}
    least_s = cheapest(noise.variances, costs).seconds(costs)
    assert mean_seconds(same, costs) <= WITHIN[name] * least_s
    assert mean_seconds(slowed, costs) <= WITHIN[name] * (least_s + seconds_of_fresh_pairs(costs))
    efforts = [comparison.effort for comparison in report.comparisons if comparison.effort]
    assert len(efforts) == len(report.comparisons), "the report says how each case was measured"
    if name in ("quads", "forks", "pairs"):
        level = {"quads": "quad_sd", "forks": "fork_sd", "pairs": "pair_sd"}[name]
        estimated = statistics.median(getattr(effort, level) for effort in efforts)
        assert estimated == pytest.approx(getattr(noise, level.removesuffix("_sd")), rel=0.4), (
            "and what noise was the cause"
        )
