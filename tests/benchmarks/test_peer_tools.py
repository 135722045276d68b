"""The procedures run, on the toy adaptor in real workers; other tools' processes do the work that a worker does."""

import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.peer_tools import inside, ours, pairs
from benchmarks.peer_tools.pairs import Benchstat, BenchstatPairs, Naive, PairedT, Tango
from benchmarks.peer_tools.trial import Bench, Tool, Trial
from benchmarks.peers import Session
from opduel.frameworks import worker_environment
from opduel.harness.cpus import plan_cpus
from opduel.harness.specs import select_cases
from opduel.records import Build, Case, Comparison, RunError
from opduel.records.measurement import Side

TOY = Path(__file__).resolve().parents[1] / "harness" / "toy_adaptor.py"


def case(name: str, operator: str = "work") -> Case:
    return Case(name, operator, "forward", {}, "float32", "cpu", threshold=0.02, timeout_s=20.0)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """One case is plain, one takes ten times its time on the treatment; the framework refuses one, and dies of one."""
    bench = Bench(
        build=Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest"),
        release="toy==1.0",
        requirements={},
        adaptor=TOY,
        environment=worker_environment(),
        cpus=plan_cpus(1),
        spec="toy",
        operators=(),
        cases=[case("plain"), case("slowed"), case("refused", "refuse"), case("lost", "abort")],
        cache=tmp_path / "cache",
    )
    return Trial(bench, seed=1, share=9.0, injected=frozenset({"slowed"}), folder=tmp_path, seconds=6.0)


@pytest.mark.parametrize(
    "tool",
    [
        Naive(0.4, 0.02),
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in (Tango(0.4, 0.005), Benchstat(0.4, 10), BenchstatPairs(0.4, 5), PairedT(0.02))
        ),
    ],
    ids=lambda tool: tool.name,
)
def test_each_procedure_finds_a_tenfold_time_and_tells_a_refused_case(tool: Tool, trial: Trial) -> None:
    tool.set_up(trial.bench)
    by_rule = tool.measure(trial)
    assert by_rule
    for answers in by_rule.values():
        assert set(answers) == {"plain", "slowed", "refused", "lost"}
        assert answers["slowed"] == "slower"
        assert answers["refused"] == answers["lost"] == "failed"


@pytest.mark.parametrize("tool", [Naive(0.4, 0.02), Tango(0.4, 0.02), Benchstat(0.4, 10)], ids=lambda tool: tool.name)
def test_a_case_that_fails_while_it_is_timed_fails_alone(tool: Tool, trial: Trial) -> None:
    trial = replace(trial, bench=replace(trial.bench, cases=[case("later", "refuse_later"), case("slowed")]))
    for answers in tool.measure(trial).values():
        assert answers == {"later": "failed", "slowed": "slower"}


def test_paired_t_has_the_time_that_opduel_took(trial: Trial) -> None:
    """In each pair as much, shared by the cases; which it can't know where opduel did not run."""
    trial = replace(trial, bench=replace(trial.bench, cases=[case("plain"), case("slowed")]), seconds=3.0)
    tool, began = PairedT(0.02, pairs=3), time.monotonic()
    answers = tool.measure(trial)
    assert 2.9 < time.monotonic() - began < 9
    assert [by_case["slowed"] for by_case in answers.values()] == ["slower"] * 4
    with pytest.raises(RunError, match="add opduel to --tools"):
        tool.measure(replace(trial, seconds=None))


@pytest.mark.parametrize("by_default", [False, True])
def test_opduel_holds_back_only_where_it_is_asked_as_it_is_by_default(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, by_default: bool
) -> None:
    calls: list[tuple[Sequence[str], Collection[int]]] = []

    def harness(command: Sequence[str], _: object, __: object, ___: object, good: Collection[int]) -> str:
        calls.append((command, good))
        return ""

    verdicts = {"plain": "unchanged", "slowed": "inconclusive", "refused": "failed", "lost": "failed"}
    found = [
        Comparison.without_figures(one, verdicts[one.id], injected=one.id in trial.injected)  # type: ignore[arg-type]
        for one in trial.bench.cases
    ]
    monkeypatch.setattr(ours, "run_program", harness)
    monkeypatch.setattr(ours, "read_report", lambda _: SimpleNamespace(comparisons=found))
    tool = ours.Ours(0.02, by_default)
    (answers,) = tool.measure(trial).values()
    ((command, good),) = calls
    assert ("--busy_host" in command) is not by_default
    assert (3 in good) is by_default
    assert answers == {"plain": "same", "slowed": "same", "refused": "failed", "lost": "failed"}
    assert tool.name == ("opduel-default" if by_default else "opduel")
    assert tool.settings == "harness.py --threshold 2%" + ("" if by_default else " --busy_host report")


def test_neither_side_of_many_process_pairs_is_always_first(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    started, timed = [], []
    sides = ("control", "treatment")

    @contextmanager
    def workers(_: Trial, order: Sequence[Side]) -> Iterator[dict[str, str]]:
        started.append(order[0])
        yield dict.fromkeys(sides, "")

    @contextmanager
    def prepared(*_: object) -> Iterator[tuple[dict[str, str], float]]:
        yield {side: side for side in sides}, 1e6

    def block(process: str, *_: object, **__: object) -> list[float]:
        timed.append(process)
        return [1.0]

    for name, stand_in in (("_workers", workers), ("_prepared", prepared), ("_block", block)):
        monkeypatch.setattr(pairs, name, stand_in)
    BenchstatPairs(0.4, 40).measure(trial)
    first = timed[::2]
    assert len(started) == 40
    assert len(first) == 40 * len(trial.bench.cases)
    for found in (started, first, first[:: len(trial.bench.cases)]):  # of all cases, and of one
        assert len(found) / 4 < found.count("control") < 3 * len(found) / 4
    assert sorted(timed[:2]) == ["control", "treatment"]


@pytest.mark.nightly
def test_another_tools_process_does_the_injected_work_on_the_treatment_alone(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(inside.JOB, str(trial.write_job()))
    assert inside.Operation("slowed", "treatment").session.spins > 0
    for name, side in (("slowed", "control"), ("plain", "treatment"), ("plain", "control")):
        assert inside.Operation(name, side).session.spins == 0
    slow, fast = inside.Operation("slowed", "treatment"), inside.Operation("slowed", "control")
    assert slow.seconds(500) > fast.seconds(500) > 0
    slow.function()()


def test_each_session_draws_cases_of_its_own_and_opduel_is_asked_for_these_alone(trial: Trial) -> None:
    every = replace(trial.bench, cases=[case(f"work_{number}") for number in range(30)])  # work_1 is part of work_10
    seen = set()
    for seed in range(8):
        session = Session(0, seed, 0.05, "quiet")
        drawn = session.drawn(every, 6)
        assert [one.id for one in select_cases(every.cases, drawn.operators)] == [one.id for one in drawn.cases]
        assert len(drawn.cases) == 6
        assert session.injected(drawn) < {one.id for one in drawn.cases}
        seen.add(tuple(drawn.operators))
    assert len(seen) == 8
    assert session.drawn(every, 30) is session.drawn(every, None) is every
