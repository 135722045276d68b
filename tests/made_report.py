"""A report of made figures, as large as one likes, for trying what shows reports. Nothing in it was measured."""

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import replace

from opduel.records import (
    FLAGGED,
    Build,
    Case,
    Cause,
    Commit,
    Comparison,
    Examination,
    Failure,
    Frame,
    PairSample,
    Report,
    Source,
    Verdict,
)
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

OPERATORS = ("add", "argsort", "BatchNorm", "broadcast_mul", "Convolution", "dot", "exp", "FullyConnected", "LayerNorm")
OPERATORS += ("mean", "one_hot", "Pooling", "relu", "sgd_update", "softmax", "split", "take", "topk", "transpose")
SIZES = ("small", "large", "skewed", "strided", "wide")
THRESHOLD = 0.02
FLAME_SOURCES: tuple[Source, ...] = ("Python functions", "native functions")


def made_report(cases: int, rounds: int = 12, seed: int = 1, flames: int = 0) -> Report:
    """A report of ``cases`` cases with ``rounds`` samples each; most of them have not changed, one in sixty fails.
    The first ``flames`` of those that changed have a cause with two flame graphs as large as they get."""
    rng = random.Random(seed)
    names = _names()
    comparisons = [_comparison(rng, *next(names), rounds) for _ in range(cases)]
    changed = [number for number, comparison in enumerate(comparisons) if comparison.verdict in FLAGGED]
    for number in changed[:flames]:
        examinations = [Examination(source, "ns", 5, 1e6, 1.2e6, flame=_flame(rng)) for source in FLAME_SOURCES]
        comparisons[number] = replace(comparisons[number], cause=Cause("not explained", examinations))
    run = {
        "id": "20260101T000000Z-made",
        "started": "2026-01-01T00:00:00+00:00",
        "finished": "2026-01-01T01:00:00+00:00",
        "framework": "toy",
        "platform": "host",
        "spec": "made",
        "spec_path": "specifications/made.json",
        "command": ["harness.py", "-b", "made", "--threads", "1"],
        "seed": seed,
        "alpha": 0.05,
        "threads": 1,
        "rounds": rounds,
        "wall_s": 3600.0,
        "complete": True,
        "incidents": [],
        "environment": {"OMP_NUM_THREADS": "1"},
        "validity": {"valid": True, "hold": True, "reasons": [], "frequency_mhz": None, "aa_checks": []},
    }
    host = {"cpu_model": "a made CPU", "logical_cpus": 8, "memory_total": 32 * 2**30, "kernel": "Linux 6.1"}
    control, treatment = _build("1.0", "Make tensors lazy", 1), _build("1.1", "Fuse what can be fused", 2)
    described = tuple(
        Case(comparison.case, comparison.operator, "forward", {"data": [64, 256]}, "float32", "cpu", THRESHOLD, 60.0)
        for comparison in comparisons
    )
    return Report(RunRecord.of(run), control, treatment, HostRecord.of(host), tuple(comparisons), cases=described)


def _flame(rng: random.Random, frames: int = 400) -> tuple[Frame, ...]:
    """A tree of that many frames, none of which has more than its caller."""
    frames_so_far = [Frame("a call", 0, 1e6, 1.2e6)]
    remaining = [(1e6, 1.2e6)]  # of each frame around the last one, what its callees may still take
    while len(frames_so_far) < frames:
        depth = min(len(remaining), rng.randint(1, 25))
        remaining = remaining[:depth]
        share = rng.uniform(0.05, 0.6)
        control, treatment = remaining[-1][0] * share, remaining[-1][1] * share * rng.choice([0.7, 1.0, 1.0])
        remaining[-1] = remaining[-1][0] - control, remaining[-1][1] - treatment
        remaining.append((control, treatment))
        frames_so_far.append(Frame(f"toy::kernel_{len(frames_so_far)}<float>(long, long*)", depth, control, treatment))
    return tuple(frames_so_far)


def _build(version: str, subject: str, number: int) -> Build:
    commit = Commit(f"{number:040x}", 1_760_000_000 + 86_400 * number, "A. Committer <a@example.org>", subject)
    return Build(
        "toy",
        f"{number:012x}",
        "overlay",
        f"/builds/{version}/bin/python",
        version,
        "3.11.7",
        f"{number:064x}",
        packages={"toy": version, "numpy": "1.26.4"},
        commit=commit,
    )


def _names() -> Iterator[tuple[str, str]]:
    """Ids and operators, without end and all different."""
    number = 0
    while True:
        for size in SIZES:
            for operator in OPERATORS:
                for direction in ("forward", "backward"):
                    yield f"{operator.lower()}_{size}_{number}/{direction}", f"nd.{operator}"
        number += 1


def _comparison(rng: random.Random, case: str, operator: str, rounds: int) -> Comparison:
    base = 10 ** rng.uniform(4, 7.5)
    failure = (
        Failure("treatment", "crash", "killed by SIGSEGV", "Segmentation fault") if rng.random() < 1 / 60 else None
    )
    effect = rng.choice((0.0, 0.0, 0.0, 0.0, rng.gauss(0, 0.06), abs(rng.gauss(0, 0.2))))
    spread = rng.uniform(0.003, 0.03)
    samples = () if failure else tuple(_sample(rng, case, base, effect, spread, number) for number in range(rounds))
    ratios = [sample.log_ratio for sample in samples]
    middle = statistics.median(ratios) if ratios else None
    half = 2.2 * statistics.stdev(ratios) / math.sqrt(rounds) if ratios else 0.0
    interval = None if middle is None else (math.exp(middle - half), math.exp(middle + half))
    return Comparison(
        case=case,
        operator=operator,
        direction="forward" if case.endswith("forward") else "backward",
        metric="time",
        unit="ns",
        verdict=_verdict(interval),
        ratio=None if middle is None else math.exp(middle),
        ci=interval,
        p_value=None if middle is None else rng.random(),
        q_value=None if middle is None else rng.random(),
        threshold=THRESHOLD,
        mde=None if middle is None else THRESHOLD + 2 * half,
        control=base if samples else None,
        treatment=None if middle is None else base * math.exp(middle),
        rounds=len(samples),
        decided_on="screening" if samples else None,
        failure=failure,
        injected=False,
        samples=samples,
    )


def _sample(rng: random.Random, case: str, base: float, effect: float, spread: float, number: int) -> PairSample:
    control = base * math.exp(rng.gauss(0, spread))
    treatment = control * math.exp(rng.gauss(effect, spread))
    return PairSample(case, "screening", number, control, treatment, math.log(treatment / control), 16, 640)


def _verdict(interval: tuple[float, float] | None) -> Verdict:
    """What an interval alone would say; the product's own decisions are more careful."""
    if interval is None:
        return "failed"
    low, high = interval
    if low > 1 + THRESHOLD:
        return "regressed"
    if high < 1 / (1 + THRESHOLD):
        return "improved"
    if low > 1 / (1 + THRESHOLD):
        return "unchanged" if high < 1 + THRESHOLD else "not_better"
    return "not_worse" if high < 1 + THRESHOLD else "inconclusive"
