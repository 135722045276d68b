"""Do both builds compute the same? Outputs and gradients of every case, on the same inputs, once.

A case is computed by the control, again by the control in a second process, and by the treatment. Where the control
agrees with itself but not with the treatment, all three compute it again: only what differs twice is a finding. Golden
outputs may stand in for the control; then the treatment is compared with itself. A run of two frameworks asks before
whether both make the same inputs.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from opduel.harness.measurement_plan import MeasurementPlan, Progress
from opduel.harness.numerics.golden import Golden
from opduel.harness.numerics.outputs import Answer, ask_results, difference
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import SAMPLED, Case, Comparison, Failure, RunError
from opduel.records.measurement import SIDES, Side

OTHER_INPUTS = "its inputs differ from those of the golden outputs: write the golden outputs again"
# Whose processes compute a case: the first one's twin tells whether it agrees with itself.
WORKERS: Mapping[str, Side] = {"control": "control", "twin": "control", "treatment": "treatment"}
WORKERS_WITH_GOLDEN: Mapping[str, Side] = {"treatment": "treatment", "twin": "treatment"}
# of the time that is left, at most, for comparing outputs, if there is anything else to measure
OUTPUT_CHECK_SHARE = 0.5
INPUT_CHECK_SHARE = 0.25  # likewise, for comparing inputs, which comes before
DIFFER = (
    "the inputs' values differ between the two sides: give tensors as positional args, in one order and of one dtype"
)


@dataclass
class OutputCheck:
    """Compares cases of the metric "error".

    ``deadline`` is of the monotonic clock; ``on_case`` gets how many are left after each case. What ended it before
    its time is in ``stopped``, or was the deadline (``out_of_time``). With a ``reference`` no control is started.
    """

    bench: Bench
    seed: int
    can_fork: Callable[[Case], bool]
    deadline: float = math.inf
    on_case: Callable[[int], None] = lambda _: None
    reference: Golden | None = None
    comparisons: Sequence[Comparison] = ()  # that it has made
    stopped: BaseException | None = None
    out_of_time: bool = False

    def compare(self, cases: Sequence[Case]) -> Sequence[Comparison]:
        """Return a comparison for each case, in order, whatever ends it early; those not come to are
        ``inconclusive``."""
        first, second = dict[str, Comparison](), dict[str, Comparison]()
        try:
            for case, comparison in self._look_at(cases):
                first[case.id] = comparison
            suspects = [case for case in cases if case.id in first and first[case.id].verdict == "regressed"]
            for case, comparison in self._look_at(suspects):
                second[case.id] = comparison
        except (KeyboardInterrupt, RunError) as error:
            self.stopped = error
        except Exception as error:  # a fault of ours, or of the machine, must not cost what was compared
            self.stopped = RuntimeError(f"{type(error).__name__}: {' '.join(str(error).split())}")
        why = str(self.stopped or "interrupted") if self.stopped is not None else NO_TIME_LEFT
        self.comparisons = [_decide(case, first.get(case.id), second.get(case.id), why) for case in cases]
        return self.comparisons

    def _look_at(self, cases: Sequence[Case]) -> Iterator[tuple[Case, Comparison]]:
        if not cases:
            return
        bench, sides = self.bench, WORKERS_WITH_GOLDEN if self.reference else WORKERS
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opduel-outputs-")))
            workers = {
                name: stack.enter_context(bench.worker(side, bench.environment, bench.cpus.start))
                for name, side in sides.items()
            }
            for number, case in enumerate(cases):
                comparison = self._look(case, workers, folder) if time.monotonic() < self.deadline else None
                if comparison is None:
                    self.out_of_time = True
                    return
                yield case, comparison
                self.on_case(len(cases) - number - 1)

    def _look(self, case: Case, workers: Mapping[str, RestartingWorker], parent: Path) -> Comparison | None:
        """Look at a case once; ``regressed`` is a suspicion. None: the time was up before it was over."""
        with tempfile.TemporaryDirectory(dir=parent) as folder:
            answers = self._answers(case, workers, Path(folder))
            failures = [answer.results for answer in answers.values() if isinstance(answer.results, Failure)]
            if failures and time.monotonic() >= self.deadline:
                return None
            if failures:
                side = failures[0].side if len({failure.side for failure in failures}) == 1 else "both"
                return Comparison.without_figures(case, "failed", failure=replace(failures[0], side=side))
            arrays = {
                name: answer.results for name, answer in answers.items() if not isinstance(answer.results, Failure)
            }
            if self.reference and answers["control"].inputs not in ("", answers["treatment"].inputs):
                return _open(case, OTHER_INPUTS)
            twice = next(iter(workers))
            itself = difference(arrays[twice], arrays["twin"], case.tolerance, ("first", "second"))
            other = difference(arrays["control"], arrays["treatment"], case.tolerance, SIDES)
        comparison = replace(_open(case, ""), control=itself.figure, treatment=other.figure, rounds=1)
        if itself.words:
            return replace(comparison, note=f"the {twice} differs from itself in a second process: {itself.words}")
        if other.words:
            return replace(comparison, verdict="regressed", note="; ".join(filter(None, (other.words, other.partial))))
        return replace(comparison, verdict="unchanged", note=other.partial)

    def _answers(self, case: Case, workers: Mapping[str, RestartingWorker], folder: Path) -> dict[str, Answer]:
        golden, fork = self.reference, self.can_fork(case)
        answers = {"control": golden.answer(case, folder / "control")} if golden else {}
        for name, worker in workers.items():
            answers[name] = ask_results(worker, case, self.seed, folder / name, fork, self.deadline, golden is not None)
        return answers


def check_outputs(
    all_cases: Sequence[Case],
    golden: Golden | None,
    bench: Bench,
    plan: MeasurementPlan,
    on_progress: Callable[[Progress], None],
    earlier_s: float,
) -> tuple[OutputCheck, MeasurementPlan]:
    """Compare the outputs of a run's cases whose metric is not sampled; they come first, and leave the others the rest
    of the time. Return what was found, and the plan that is left. ``earlier_s``: what earlier starts took of the time
    budget."""
    cases = [case for case in all_cases if case.metric not in SAMPLED]
    began, sampled_cases = time.monotonic() - plan.spent_s, len(plan.cases)

    def on_case(cases_left: int) -> None:
        on_progress(Progress(0, cases_left + sampled_cases, len(all_cases), time.monotonic() - began, 0.0))

    left_s = math.inf if plan.time_budget is None else max(0.0, plan.time_budget - earlier_s)
    deadline = began + (OUTPUT_CHECK_SHARE * left_s if sampled_cases else left_s)
    check = OutputCheck(bench, plan.seed, plan.can_fork, deadline, on_case, golden)
    check.compare(cases)
    return check, replace(plan, spent_s=time.monotonic() - began) if cases else plan


def _decide(case: Case, first: Comparison | None, second: Comparison | None, why: str) -> Comparison:
    """Return the comparison by one look, or two at a case that differed; ``why`` a look is missing."""
    if first is None:
        return replace(_open(case, f"not compared: {why}"), unreached=True)
    if first.verdict != "regressed":
        return first
    if second is not None and second.verdict == "regressed":
        return replace(second, rounds=2)
    outcome = f"not compared again: {why}"
    if second is not None:
        outcomes = {"unchanged": "agreed when computed again", "failed": "failed when computed again"}
        outcome = outcomes.get(second.verdict, second.note)
    note = f"differed at first ({first.note}), {outcome}"
    rounds = 1 if second is None else 2
    return replace(first, verdict="inconclusive", note=note, rounds=rounds, unreached=second is None)


def _open(case: Case, note: str) -> Comparison:
    return Comparison.without_figures(case, "inconclusive", note=note)


def with_other_inputs(
    cases: Sequence[Case], bench: Bench, seed: int, can_fork: Callable[[Case], bool], budget_s: float | None = None
) -> list[Comparison]:
    """Return a failed comparison for each case whose inputs have other values on the treatment than on the control.

    What either side can't say (its adaptor has no digest, or refuses the case) is none of these: measuring tells. After
    ``budget_s`` seconds no further case is looked at. Raises RunError: a build can't be started."""
    deadline = math.inf if budget_s is None else time.monotonic() + budget_s
    differing: dict[str, bool] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.worker(side, bench.environment, bench.cpus.start)) for side in SIDES]
        for case in cases:
            if case.time_id in differing or time.monotonic() >= deadline:
                continue
            request = CaseRequest(case, seed)
            question = {"op": "digest", "case": request.description(), "seed": seed}
            answers = [worker.ask([question], time_left(case, deadline), fork=can_fork(case)) for worker in workers]
            digests = {"" if isinstance(answer, Failure) else str(answer[0]["digest"]) for answer in answers}
            differing[case.time_id] = len(digests) > 1 and "" not in digests
    return [
        Comparison.without_figures(case, "failed", failure=Failure("both", "error", DIFFER))
        for case in cases
        if differing.get(case.time_id)
    ]
