#!/usr/bin/env python3
"""What becomes of a build's threads when it is forked: the table of docs/explanation/performance.md.

    .venv/bin/python benchmarks/forked_threads.py --threads 2 --forks 200

For each build: how many threads the process has after the import; how many of them a fork loses; how many compute in
calls of a large operator, in that process and in a fork of another; and how many forks, each of which prepared the
case, answered. A thread computes that has had at least half of the processor time of the busiest one.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.driver.builds import BuildCache, resolve_build  # noqa: E402
from opduel.frameworks import get_framework, run_environment  # noqa: E402
from opduel.harness.case_request import CaseRequest  # noqa: E402
from opduel.harness.channel import complete  # noqa: E402
from opduel.harness.cpus import plan_cpus  # noqa: E402
from opduel.harness.forking import WATCHING, why_not  # noqa: E402
from opduel.harness.process import AskError, CaseProcess, Worker  # noqa: E402
from opduel.records import Case, Failure, RunError, UsageError  # noqa: E402

SHARE = 0.5
CALLS_NS = 1e9
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Look:
    """A release of a framework, and a large case of it."""

    framework: str
    release: str
    operator: str
    inputs: dict[str, Any]

    @property
    def case(self) -> Case:
        return Case("case", self.operator, "forward", self.inputs, "float32", "cpu", 0.02, timeout_s=TIMEOUT_S)


PRODUCT = {"args": [[400, 400], [400, 400]]}
ELEMENTS = {"data": [1000, 1000]}
LOOKS = [
    Look("python", "numpy==1.26.4", "numpy.matmul", PRODUCT),
    Look("python", "numpy==2.2.6", "numpy.matmul", PRODUCT),
    Look("python", "scipy==1.15.3", "scipy.linalg.inv", {"args": [[400, 400]]}),
    Look("onnxruntime", "onnxruntime==1.21.0", "onnx.MatMul", {"A": [400, 400], "B": [400, 400]}),
    *(Look("mxnet", f"mxnet=={one}", "nd.exp", ELEMENTS) for one in ("1.5.1.post0", "1.7.0.post2", "1.8.0.post0")),
    Look("mxnet", "mxnet==1.9.1", "nd.exp", ELEMENTS),
    Look("mxnet", "mxnet==1.9.1", "nd.dot", {"lhs": [400, 400], "rhs": [400, 400]}),
    Look("torch", "torch==2.13.0+cpu", "torch.matmul", {"input": [400, 400], "other": [400, 400]}),
]


def processor_ns(pid: int) -> dict[str, int]:
    """What each thread of a process has had of the processors, in nanoseconds (schedstat, proc(5))."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in tasks}


def prepare(worker: Worker, case: Case, fork: bool) -> tuple[CaseProcess, float]:
    """The case, ready in a process, and nanoseconds a call. Raises AskError: it isn't."""
    process = complete(worker.beginning(fork))
    return process, float(process.ask(CaseRequest(case, 1).message("control"), TIMEOUT_S)["call_ns"])


def computing(worker: Worker, case: Case, fork: bool) -> int:
    """How many threads compute in calls of the case."""
    process, call_ns = prepare(worker, case, fork)
    before = processor_ns(process.pid)
    calls = max(10, round(CALLS_NS / call_ns))
    process.ask({"op": "block", "discard": 0, "calls": calls, "inner": 1}, TIMEOUT_S)
    spent = [time_ns - before.get(task, 0) for task, time_ns in processor_ns(process.pid).items()]
    process.end()
    return sum(one >= SHARE * max(spent) for one in spent)


def answered(worker: Worker, case: Case, forks: int) -> int:
    """Of so many forks, those in which the case could be prepared."""
    found = 0
    for _ in range(forks):
        try:
            prepare(worker, case, fork=True)[0].end()
            found += 1
        except AskError as error:
            print(error.failure.reason, file=sys.stderr)
            if worker.closed:
                break
    return found


def row(look: Look, threads: int, forks: int) -> list[str]:
    """The table's line for a build."""
    framework = get_framework(look.framework)
    build = resolve_build(look.release, framework, BuildCache())
    environment = {**run_environment(framework, threads, {}), **framework.preparation([look.case])}
    cpus = plan_cpus(threads).start
    with Worker("control", build, framework.adaptor, {**environment, **WATCHING}, cpus) as worker:
        worker.wait_ready()
        imported = len(processor_ns(worker.pid))
        found: list[dict[str, Any]] | Failure
        try:
            found = [complete(worker.beginning(fork=True)).ask({"op": "threads"}, TIMEOUT_S)]
        except AskError as error:
            found = error.failure
        in_fork, ok = computing(worker, look.case, fork=True), answered(worker, look.case, forks)
    with Worker("control", build, framework.adaptor, environment, cpus) as worker:
        worker.wait_ready()
        in_process = computing(worker, look.case, fork=False)
    lost = "?" if isinstance(found, Failure) or found[0]["lost"] is None else str(len(found[0]["lost"]))
    forked = "no" if why_not(found, threads) else "yes"
    cells = [look.release, look.operator, imported, lost, in_process, in_fork, f"{ok} of {forks}", forked]
    return [str(cell) for cell in cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--forks", type=int, default=200)
    parser.add_argument("--only", default="", help="only releases that contain this")
    options = parser.parse_args()
    print("| build | operator | threads after the import | lost | compute, process | compute, fork | forks | forked |")
    print("|---|---|---|---|---|---|---|---|")
    for look in LOOKS:
        if options.only in look.release:
            try:
                print("| " + " | ".join(row(look, options.threads, options.forks)) + " |", flush=True)
            except (UsageError, RunError) as error:  # a wheel that no index has
                print(f"{look.release}: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
