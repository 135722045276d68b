"""An experiment for noise.py --duet: blocks of both sides at the same moment, and a loop of known work as a reference.

Each fork of a case is measured in three ways, in random order, in about the same time each:

- interleaved: ABBA quads on one processor, as opduel does;
- duet: a block of either side at the same moment on two processors, which change sides for the next block (Bulej et al.
  2020, "Duet Benchmarking: Improving Measurement Accuracy in the Cloud", ICPE): two such blocks are a quad;
- reference: quads whose blocks have a loop of known work before and behind them on the same processor. Its times are a
  control variate: what of a block's time follows from them by regression is taken away.
"""

import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from opduel.harness.block_plan import BlockPlan, plan_blocks
from opduel.harness.blocks import LOW, Block, Processes, measure_in_turns, settle
from opduel.harness.case_request import CaseRequest
from opduel.harness.channel import Background, complete, wait_for_any
from opduel.harness.cpus import this_thread_on
from opduel.harness.fork_values import middle_mean
from opduel.harness.pair_pool import Bench, Pair, PairStart
from opduel.harness.process import AskError
from opduel.records import RunError
from opduel.records.measurement import SIDES, Side

QUADS, LONGEST_NS = 16, 500_000_000  # of a fork, in each way; fewer if they would take longer
TURNS = 10_000  # of the reference's loop, some 0.2 ms

Logs = dict[Side, list[float]]  # of blocks, in order: two of either side are a quad
Ways = dict[str, tuple[float, float]]  # way -> the log ratio of a fork, and the seconds that it took


def compare_ways(bench: Bench, requests: Sequence[CaseRequest], pairs: int, rng: random.Random) -> None:
    """Measure every case in a fork of each of so many process pairs, and print how far each way's log ratios spread.

    Raises:
        RunError: there is one processor alone.
    """
    if len(bench.cpus.measure | bench.cpus.control) < 2:
        raise RunError("--duet: needs two processors")
    by_case: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(pairs):
        start = PairStart(bench, rng)
        pair = start.finish()
        for request in rng.sample(list(requests), len(requests)):
            for way, measured in _fork(pair, request, bench, rng).items():
                by_case[request.case.id][way].append(measured)
        start.close()
    tell(by_case)


def _fork(pair: Pair, request: CaseRequest, bench: Bench, rng: random.Random) -> Ways:
    processes = {side: complete(pair[side].beginning(fork=True)) for side in rng.sample(SIDES, 2)}
    call_ns = {
        side: process.ask(request.message(side), request.case.timeout_s)["call_ns"]
        for side, process in processes.items()
    }
    _pin(processes, bench.cpus.measure)
    sizes = plan_blocks(settle(processes, request.case, call_ns, rng), quads=QUADS)
    quads = sizes.quads_within(LONGEST_NS)
    plan = replace(sizes, quads=quads, takes_ns=sizes.takes_ns * quads / sizes.quads)
    found: Ways = {}
    for way in rng.sample(["interleaved", "duet", "reference"], 3):
        began = time.monotonic()
        if way == "duet":
            cpus = sorted(bench.cpus.measure | bench.cpus.control)[-2:]
            ratios = {way: _ratio(_duet(processes, plan, request, cpus))}
            _pin(processes, bench.cpus.measure)
        elif way == "interleaved":
            with this_thread_on(bench.cpus.control):
                blocks = measure_in_turns(processes, request.case, plan, rng)
            ratios = {way: _ratio({side: [math.log(block.low) for block in blocks[side]] for side in SIDES})}
        else:
            with this_thread_on(bench.cpus.measure):
                logs, references = _beside_reference(processes, plan, request, rng)
            ratios = {"one by one": _ratio(logs), "with the reference": _ratio(_without(logs, references))}
        seconds = time.monotonic() - began
        found |= {name: (ratio, seconds) for name, ratio in ratios.items()}
    for process in processes.values():
        complete(process.ended())
    return found


def _pin(processes: Processes, cpus: frozenset[int]) -> None:
    for process in processes.values():
        process.pin(cpus)


def _request(plan: BlockPlan, side: Side) -> dict[str, object]:
    numbers = {"discard": max(1, plan.discard[side]), "calls": plan.calls[side], "inner": plan.inner}
    return {"op": "low_block", **numbers, "most_ns": plan.late_ns, "share": LOW}


def _duet(processes: Processes, plan: BlockPlan, request: CaseRequest, cpus: Sequence[int]) -> Logs:
    """Logarithms of blocks of which those with the same place were measured at the same moment."""
    logs: Logs = {side: [] for side in SIDES}
    for number in range(4 * plan.quads):
        for side, cpu in zip(SIDES, cpus if number % 2 else cpus[::-1], strict=True):
            processes[side].pin(frozenset({cpu}))
        asked = {
            side: Background(process.asking(_request(plan, side), request.case.timeout_s), AskError)
            for side, process in processes.items()
        }
        while waiting := [step for step in (steps.advance() for steps in asked.values()) if step]:
            wait_for_any(waiting)
        for side, steps in asked.items():
            logs[side].append(math.log(Block.of(steps.finish()).low))
    return logs


def _beside_reference(
    processes: Processes, plan: BlockPlan, request: CaseRequest, rng: random.Random
) -> tuple[Logs, Logs]:
    """Logarithms of blocks, and of the reference beside each."""
    logs: Logs = {side: [] for side in SIDES}
    references: Logs = {side: [] for side in SIDES}
    before = _reference_s()
    for quad in plan.order(rng):
        for side in quad:
            answer = processes[side].ask(_request(plan, side), request.case.timeout_s)
            behind = _reference_s()
            logs[side].append(math.log(Block.of(answer).low))
            references[side].append((math.log(before) + math.log(behind)) / 2)
            before = behind
    return logs, references


def _reference_s() -> float:
    began = time.perf_counter()
    for _ in range(TURNS):
        pass
    return time.perf_counter() - began


def _without(logs: Logs, references: Logs) -> Logs:
    """The blocks without what the reference explains, by one slope for both sides."""
    apart = [
        (reference - statistics.fmean(references[side]), block - statistics.fmean(logs[side]))
        for side in SIDES
        for block, reference in zip(logs[side], references[side], strict=True)
    ]
    squares = sum(reference**2 for reference, _ in apart)
    slope = sum(reference * block for reference, block in apart) / squares if squares else 0.0
    return {
        side: [block - slope * reference for block, reference in zip(logs[side], references[side], strict=True)]
        for side in SIDES
    }


def _ratio(logs: Logs) -> float:
    """The mean of the middle half of the quads."""
    return middle_mean(
        [
            statistics.fmean(logs["treatment"][at : at + 2]) - statistics.fmean(logs["control"][at : at + 2])
            for at in range(0, len(logs["control"]), 2)
        ]
    )


def tell(by_case: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]) -> None:
    """A line for each case: by way, the spread of its log ratios times the square root of the seconds of each, which
    is what they would spread by after a second; and the geometric means."""
    ways = sorted({way for measured in by_case.values() for way in measured})
    rows: dict[str, list[float]] = {way: [] for way in ways}
    print(f"{'spread after a second, %':28}" + "".join(f"{way:>20}" for way in ways))
    for case_id, measured in by_case.items():
        for way in ways:
            ratios, seconds = zip(*measured[way], strict=True)
            middle = statistics.median(ratios)
            spread = 1.4826 * statistics.median(abs(ratio - middle) for ratio in ratios)
            rows[way].append(100 * max(spread, 1e-5) * math.sqrt(statistics.median(seconds)))
        print(f"{case_id:28}" + "".join(f"{rows[way][-1]:20.3f}" for way in ways))
    means = {way: statistics.geometric_mean(values) for way, values in rows.items()}
    print(f"{'geometric mean':28}" + "".join(f"{means[way]:20.3f}" for way in ways))
    for way in ways:
        print(f"{way}: takes {(means[way] / means['interleaved']) ** 2:.2f} times as long for the same spread")
