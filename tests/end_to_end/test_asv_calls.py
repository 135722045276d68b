"""What asv_runner calls of a suite, and what opduel calls: the same, for every kind of benchmark."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import pytest

from opduel.driver.suites.discovery import SuiteCase, all_cases, discover
from opduel.driver.suites.source import open_suite
from opduel.driver.suites.work import SuiteWork, cache_orders, new_work_folder
from opduel.frameworks import get_framework, run_environment
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.process import SLOTS
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Build, Case, Failure

SUITE = Path(__file__).resolve().parent.parent / "fixtures" / "noted_suite"
WITH_CACHES = {"Cached", "CachedToo", "CachedWithParameters", "CachesNothing", "module_hooks"}
COUNTED = {"OnlyTeardownNumber", "ClockAlone"}  # of which each region has ``number`` calls
# As asv calls asv_runner: a process for each setup_cache, and for each benchmark with its parameters, in a folder.
ASV = """
import json, math, os, sys, tempfile
from asv_runner.discovery import disc_benchmarks
from asv_runner.run import _run
from asv_runner.setup_cache import _setup_cache

root = sys.argv[1]
sys.path.insert(0, os.path.dirname(root))

def in_a_process(function, *args):
    if os.fork() == 0:
        function(*args)
        os._exit(0)
    assert os.wait()[1] == 0

def list_all():
    all_benchmarks = [
        (benchmark.name, math.prod(map(len, benchmark._params)), benchmark.setup_cache_key is not None)
        for benchmark in disc_benchmarks(root)
    ]
    with open("list.json", "w") as stream:
        json.dump(all_benchmarks, stream)

in_a_process(list_all)
for name, count, has_cache in json.load(open("list.json")):
    for number in range(count):
        folder = tempfile.mkdtemp(dir=sys.argv[2])
        os.chdir(folder)
        if has_cache:
            in_a_process(_setup_cache, (root, name, "{}"))
        in_a_process(_run, (root, "%s-%d" % (name, number), "{}", "None", folder + ".json"))
"""


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What the suite has written down under each of the two."""
    folder = tmp_path_factory.mktemp("notes")
    files = {name: folder / f"{name}.jsonl" for name in ("asv", "opduel")}
    command = [sys.executable, "-c", ASV, str(SUITE / "noted_benchmarks"), str(folder)]
    with subprocess.Popen(command, env={"NOTED_CALLS": str(files["asv"])}, cwd=folder, stderr=subprocess.PIPE) as asv:
        call_all({"NOTED_CALLS": str(files["opduel"])}, folder)
        _, errors = asv.communicate(timeout=60)
    assert asv.returncode == 0, errors.decode()
    return files


def call_all(env: dict[str, str], folder: Path) -> None:
    """Discover the suite, run each setup_cache, and measure each case once, as a run does on one side."""
    framework = get_framework("asv")
    work = SuiteWork.of(open_suite(str(SUITE), folder, folder), new_work_folder())
    build = work.on_side("control", Build("asv", "this", "environment", sys.executable, "1", "3", "d"))
    discovered = discover(build, framework, work.copies["control"], work.place("control"), env)
    assert discovered.problems == ()
    suite_cases = all_cases({"control": discovered})
    assert work.make_caches({"control": build}, framework, cache_orders(suite_cases, None), env) == []
    with_parameters = [suite_case for suite_case in suite_cases if suite_case.parameters]
    for hash_seed, cases in (("1", suite_cases), ("2", with_parameters)):  # one is a set
        environment = run_environment(framework, 1, {**env, "PYTHONHASHSEED": hash_seed})
        cpus = frozenset(os.sched_getaffinity(0))
        with RestartingWorker("control", build, framework.adaptor, environment, cpus) as worker:
            for suite_case in cases:
                measure(worker, suite_case)
            for _ in range(SLOTS):
                worker.ask([], 30.0)  # waits until the last cases have ended


def measure(worker: RestartingWorker, suite_case: SuiteCase) -> None:
    kind, name = suite_case.benchmark.kind, suite_case.benchmark.name
    metric = {"peakmem": "process_memory", "track": "value", "mem": "value"}.get(kind, "time")
    inputs = dict(suite_case.parameters)
    request = CaseRequest(Case(suite_case.name, name, "forward", inputs, "", "cpu", 0.02, 30.0, metric=metric), 1)
    block = {"op": "low_block", "discard": 1, "calls": 3, "inner": 4, "most_ns": 1e9, "share": 0.1}
    message = [request.message("control"), {"op": "resident", "calls": 3} if kind == "peakmem" else block]
    if metric == "value":
        message = [{"op": "value", "case": request.description(), "seed": 1}]
    answer = worker.ask(message, 30.0)
    assert (name == "hooks.Skips.time_it") == isinstance(answer, Failure), answer


def processes(path: Path) -> list[list[list[object]]]:
    """The lines of each process."""
    lines_by_process = defaultdict(list)
    for text in path.read_text(encoding="utf-8").splitlines():
        pid, *line = json.loads(text)
        lines_by_process[pid].append(line)
    return list(lines_by_process.values())


def pattern(events: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The events without repetitions: of setup, call, teardown, setup, call and teardown the first three."""
    runs = [(*event, str(len(list(run))) if event[0] in COUNTED else "") for event, run in groupby(events)]
    for size in range(1, 8):
        place = 0
        while place + 2 * size <= len(runs):
            if runs[place : place + size] == runs[place + size : place + 2 * size]:
                del runs[place : place + size]
            else:
                place += 1
    return runs


def described(path: Path) -> set[str]:
    """A text for each process: what was called in it, in which folder, with which modules and variable."""
    lists = processes(path)
    caches = {lines[-1][3]: lines[-1][0] for lines in lists if lines[-1][1] == "setup_cache"}
    texts = set()
    for lines in lists:
        events = pattern([tuple(map(str, line[:3])) for line in lines])
        _, _, _, folder, files, mode, modules = lines[-1]
        assert {line[3] for line in lines} == {folder}
        place = "" if lines[-1][1] == "setup_cache" else caches.get(folder, "")
        texts.add(f"{[' '.join(event) for event in events]} in {files} {place}, {mode}, {modules}")
    return texts


def test_both_call_the_same_with_the_same_arguments_in_the_same_surroundings(notes: dict[str, Path]) -> None:
    asv, opduel = (described(notes[name]) for name in ("asv", "opduel"))
    assert opduel == asv
    assert len(asv) > 25


def test_each_class_has_its_setup_cache_once(notes: dict[str, Path]) -> None:
    cache_makers = [lines[-1][0] for lines in processes(notes["opduel"]) if lines[-1][1] == "setup_cache"]
    assert sorted(map(str, cache_makers)) == sorted(WITH_CACHES)
