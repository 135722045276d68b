#!/usr/bin/env python3
"""How far fresh process pairs of one build differ, and what a case costs, under several settings side by side.

    .venv/bin/python benchmarks/noise.py --rounds 12 --setting A=1 --setting MXNET_ENGINE_TYPE=NaiveEngine
    .venv/bin/python benchmarks/noise.py --setting opduel.harness.blocks.LOW=0.1 --setting ahead=yes
    .venv/bin/python benchmarks/noise.py --setting ahead=yes --setting ahead=no
    .venv/bin/python benchmarks/noise.py --spec calibration --rounds 6 --summaries --load bursts
    .venv/bin/python benchmarks/noise.py --spec conv --rounds 8 --duet

A setting is NAME=VALUE[,NAME=VALUE]: an environment variable on both sides, a number in one of the harness's modules,
or whether the next case and pair are got ready while others are measured. All settings are used in each round, in
random order.  For each: the standard deviation of a case's log ratio over the pairs (from the median absolute
deviation), its extremes, and wall time and timed share of a case in a round.

--summaries: what other ways to boil the blocks of a fork down to a log ratio would have given, of the same blocks.
Printed are, for each setting, the geometric mean of the cases' spreads, and the root mean squares of all cases' log
ratios, whose truth is 0: of the nearest 90 % of them, and of all.

--duet: in place of rounds, forks that are measured in several ways, one after the other, and how far each way's log
ratios spread for the time that it takes: duet.py.
"""

import argparse
import importlib
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import opduel.harness.pair as harness_pair  # noqa: E402
from benchmarks.duet import compare_ways  # noqa: E402
from benchmarks.fork_summaries import SUMMARIES  # noqa: E402
from benchmarks.loads import LOADS, QUIET, load  # noqa: E402
from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, worker_environment  # noqa: E402
from opduel.harness.blocks import Block  # noqa: E402
from opduel.harness.case_request import CaseRequest  # noqa: E402
from opduel.harness.cpus import plan_cpus, this_thread_on  # noqa: E402
from opduel.harness.effort import Repetitions  # noqa: E402
from opduel.harness.fork_values import ForkValue, pair_sample, summarise  # noqa: E402
from opduel.harness.pair import Round, RoundResult, run_round  # noqa: E402
from opduel.harness.pair_pool import Bench, PairPool  # noqa: E402
from opduel.harness.specs import expand_cases, find_spec, load_spec  # noqa: E402
from opduel.records.measurement import SIDES, PairSample, Side  # noqa: E402


def spread(values: list[float]) -> float:
    """The median absolute deviation, scaled to a normal distribution's standard deviation."""
    middle = statistics.median(values)
    return 1.4826 * statistics.median(abs(value - middle) for value in values)


@contextmanager
def applied(setting: str, bench: Bench) -> Iterator[Bench]:
    """The bench under a setting; numbers in modules are put back."""
    before: list[tuple[ModuleType, str, Any]] = []
    added: dict[str, str] = {}
    for name, value in (pair.split("=", 1) for pair in setting.split(",")):
        if name == "ahead":
            start = bench.cpus.start if value == "yes" else bench.cpus.measure
            bench = replace(bench, cpus=replace(bench.cpus, start=start))
        elif "." in name:
            module, constant = importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2]
            before.append((module, constant, getattr(module, constant)))
            setattr(module, constant, type(before[-1][2])(float(value)))
        else:
            added[name] = value
    try:
        yield replace(bench, environment={**bench.environment, **added})
    finally:
        for module, constant, value in before:
            setattr(module, constant, value)


Kept = dict[str, list[tuple[list[float], list[float]]]]  # case -> the logarithms of both sides' blocks, by fork


@contextmanager
def kept_blocks() -> Iterator[Kept]:
    """All blocks that forks are boiled down from, as they come."""
    kept: Kept = {}
    of: dict[int, tuple[list[float], list[float]]] = {}  # by what was made of them, which lives until it is sampled

    def summarising(blocks: Mapping[Side, Sequence[Block]]) -> ForkValue:
        control, treatment = ([math.log(block.low) for block in blocks[side]] for side in SIDES)
        value = summarise(blocks)
        of[id(value)] = control, treatment
        return value

    def sampling(request: CaseRequest, number: int, values: Sequence[ForkValue]) -> PairSample:
        kept.setdefault(request.case.id, []).extend(of.pop(id(value)) for value in values)
        return pair_sample(request, number, values)

    vars(harness_pair).update(summarise=summarising, pair_sample=sampling)
    try:
        yield kept
    finally:
        vars(harness_pair).update(summarise=summarise, pair_sample=pair_sample)


def tell_summaries(kept: Kept) -> None:
    """A line for each summary, and the correlation of neighbouring blocks: their deviations from the median of their
    fork and side, up to 15 %."""
    sides = [side for forks in kept.values() for fork in forks for side in fork if len(side) > 2]
    apart = [[max(-0.15, min(0.15, one - statistics.median(side))) for one in side] for side in sides]
    control, treatment = ([one for side in apart[first::2] for one in side] for first in (0, 1))
    print(f"correlation of neighbouring blocks {statistics.correlation(control, treatment):.2f}")
    for name, of in SUMMARIES.items():
        ratios = [[of(*sides) for sides in forks] for forks in kept.values()]
        typical = math.exp(statistics.fmean(math.log(max(spread(row), 1e-5)) for row in ratios))
        squares = sorted(ratio**2 for row in ratios for ratio in row)
        near, whole = (math.sqrt(statistics.fmean(squares[: math.ceil(share * len(squares))])) for share in (0.9, 1.0))
        print(f"{name:28} {100 * typical:6.2f} %  {100 * near:6.2f} %  {100 * whole:6.2f} %")


@dataclass
class Seen:
    """What one setting has given so far."""

    ratios: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    wall_s: list[float] = field(default_factory=list)
    timed_s: list[float] = field(default_factory=list)
    kept: Kept = field(default_factory=lambda: defaultdict(list))


def tell(setting: str, seen: Seen, cases: int) -> None:
    """One setting's table."""
    typical = math.exp(statistics.fmean(math.log(max(spread(row), 1e-5)) for row in seen.ratios.values()))
    wall, timed = statistics.median(seen.wall_s), statistics.median(seen.timed_s)
    print(
        f"{setting}: geometric mean of the spreads {100 * typical:.2f} %; "
        f"{1000 * wall / cases:.0f} ms a case and round, {timed / wall:.0%} of it timed"
    )
    for case, row in seen.ratios.items():
        print(f"  {case:28} {100 * spread(row):6.2f} %  from {100 * min(row):+6.1f} % to {100 * max(row):+6.1f} %")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1")
    parser.add_argument("--spec", default="smoke")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--forks", type=int, default=2, help="of each case and process pair (default %(default)s)")
    parser.add_argument("--quads", type=int, default=24, help="of each fork (default %(default)s)")
    parser.add_argument("--setting", action="append", default=[])
    parser.add_argument("--summaries", action="store_true", help="compare ways to boil blocks down")
    parser.add_argument("--load", default=QUIET, choices=LOADS, help="beside the rounds (default quiet)")
    parser.add_argument("--duet", action="store_true", help="compare interleaved with simultaneous blocks")
    options = parser.parse_args()
    spec = load_spec(find_spec(options.spec))
    framework = get_framework(spec.framework)
    build = resolve_build(options.build, framework, BuildCache())
    environment = {**worker_environment(), **framework.environment(1)}
    bench = Bench({"control": build, "treatment": build}, framework.adaptor, environment, plan_cpus(1))
    requests = [CaseRequest(case, 1) for case in expand_cases(spec)]
    rng = random.Random(1)
    if options.duet:
        with load(options.load):
            compare_ways(bench, requests, options.rounds, rng)
        return
    repetitions = {request.case.id: Repetitions(options.forks, options.quads) for request in requests}
    settings = options.setting or ["ahead=yes"]
    seen = {setting: Seen() for setting in settings}
    with load(options.load), kept_blocks() as kept, this_thread_on(bench.cpus.control), ExitStack() as stack:
        supplies = {}
        for setting in settings:
            with applied(setting, bench) as changed:
                supplies[setting] = stack.enter_context(PairPool(changed, rng))
        for number in range(options.rounds):
            for setting in rng.sample(settings, len(settings)):
                result = RoundResult()
                with applied(setting, bench):
                    run_round(supplies[setting], Round(requests, number, repetitions=repetitions), rng, result)
                while kept:
                    case_id, forks = kept.popitem()
                    seen[setting].kept[case_id] += forks
                for sample in result.samples:
                    seen[setting].ratios[sample.case_id].append(sample.log_ratio)
                seen[setting].wall_s.append(result.wall_s)
                seen[setting].timed_s.append(result.timed_s)
    for setting in settings:
        tell(setting, seen[setting], len(requests))
        if options.summaries:
            tell_summaries(seen[setting].kept)


if __name__ == "__main__":
    main()
