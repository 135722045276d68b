"""The processes of an asv suite's cases: each has imported its own module and no other, mostly before it is forked."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from suites import case_of, prepare, suite_worker

from opduel.frameworks import get_framework, worker_environment
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Failure

BODIES = {
    "__init__": "import os, sys\n",
    "plain": """import os, sys, time
        def track_others():
            return len([name for name in sys.modules if name.startswith("noted_suite.")])
        def track_mode():
            return len(os.environ.get("NOTED_MODE", ""))
        def track_parent():
            return os.getppid()
        def track_kills_its_parent():
            os.kill(os.getppid(), 9)
            time.sleep(30)
        """,
    "sets_mode": """import os
        os.environ["NOTED_MODE"] = "fast"
        from noted_suite.plain import track_mode
        def track_length():
            return track_mode()
        def track_parent():
            return os.getppid()
        """,
    "third": "def track_nothing(): return 1\n",
    "lazy": """import asyncio
        async def wait():
            await asyncio.sleep(0)
        def many():
            for number in range(20000):
                yield number
        async def time_coroutine():
            await wait()
        def time_returned_coroutine():
            return wait()
        def time_generator():
            yield from many()
        def time_returned_generator():
            return many()
        def peakmem_generator():
            yield bytearray(50 << 20)
        def peakmem_coroutine():
            return wait()
        async def track_coroutine():
            return 1
        def mem_generator():
            yield 1
        class AsyncSetup:
            async def setup(self):
                self.ready = True
            def time_it(self):
                pass
        class YieldingTeardown:
            def setup(self):
                pass
            def teardown(self):
                yield
            def time_it(self):
                pass
        """,
    "pools": """import multiprocessing, subprocess, sys
        def main_file(_):
            return getattr(sys.modules["__main__"], "__file__", None)
        def start(method):
            with multiprocessing.get_context(method).Pool(1) as pool:
                assert pool.map(main_file, [1]) == [None]
            return 1
        def track_spawn():
            return start("spawn")
        def track_forkserver():
            return start("forkserver")
        def track_program():
            return int(subprocess.check_output([sys.executable, "-c", "import noted_suite.pools; print(3)"]))
        def timeraw_import():
            return "import noted_suite.pools"
        class Cached:
            def setup_cache(self):
                return start("spawn")
            def track_it(self, cache):
                return cache
        """,
    "crashing": "import os\nos.abort()\n",
    "raising": "raise OSError('no such device')\n",
    "with_thread": """import os, threading, time
        threading.Thread(target=time.sleep, args=[99], daemon=True).start()
        def track_parent():
            return os.getppid()
        """,
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite") / "noted_suite"
    folder.mkdir()
    for name, body in BODIES.items():
        (folder / f"{name}.py").write_text(body.replace("\n        ", "\n"))
    return folder


@pytest.fixture
def worker(suite: Path, tmp_path: Path) -> Iterator[RestartingWorker]:
    """A worker that has imported nothing yet."""
    with suite_worker("asv", suite, tmp_path / "work") as fresh_worker:
        yield fresh_worker


@pytest.fixture(scope="module")
def shared_worker(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartingWorker]:
    """A worker for tests in which it doesn't matter what was imported before."""
    with suite_worker("asv", suite, tmp_path_factory.mktemp("shared") / "work") as shared:
        yield shared


def value(worker: RestartingWorker, operator: str) -> Any:
    answers = worker.ask([{"op": "value", "case": case_of(operator), "seed": 1}], 30.0)
    return answers if isinstance(answers, Failure) else answers[0]["value"]


def test_what_a_module_does_is_seen_by_its_own_cases_alone(shared_worker: RestartingWorker) -> None:
    assert value(shared_worker, "sets_mode.track_length") == 4
    assert value(shared_worker, "plain.track_mode") == 0
    assert value(shared_worker, "plain.track_others") == 1


def test_a_module_is_imported_once_for_its_cases_and_the_latest_two_are_kept(worker: RestartingWorker) -> None:
    first = value(worker, "plain.track_parent")
    assert value(worker, "sets_mode.track_parent") != first
    assert value(worker, "plain.track_parent") == first
    value(worker, "third.track_nothing")
    assert value(worker, "plain.track_parent") == first
    value(worker, "sets_mode.track_parent")
    value(worker, "third.track_nothing")
    assert value(worker, "plain.track_parent") != first


def test_what_is_preloaded_is_imported_before_the_processes_of_cases(tmp_path: Path) -> None:
    suite = tmp_path / "noted_suite"
    suite.mkdir()
    (suite / "__init__.py").write_text("")
    for name in ("first", "second"):
        (suite / f"{name}.py").write_text("import loaded\ndef track_place():\n    return loaded.PLACE\n")
    (tmp_path / "loaded.py").write_text("import os\nPLACE = os.getpid()\n")
    places = []
    for number, preloaded in enumerate(({}, {"OPDUEL_SUITE_PRELOADED": "loaded,no_such"})):
        with suite_worker("asv", suite, tmp_path / f"work{number}", **preloaded) as worker:
            places.append([value(worker, f"{name}.track_place") for name in ("first", "second")])
            pid = worker._ready().pid
    assert len({*places[0], pid}) == 3
    assert places[1] == [pid, pid]


def test_a_module_that_crashes_or_raises_costs_its_own_cases_alone(shared_worker: RestartingWorker) -> None:
    pid = shared_worker._ready().pid
    for module, reason in (("crashing", "killed by SIGABRT"), ("raising", "OSError: no such device")):
        failure = value(shared_worker, f"{module}.track_nothing")
        assert isinstance(failure, Failure)
        assert failure.reason == reason
    assert value(shared_worker, "third.track_nothing") == 1
    assert shared_worker._ready().pid == pid


def test_a_module_whose_threads_a_fork_would_lose_is_imported_by_each_case(shared_worker: RestartingWorker) -> None:
    assert value(shared_worker, "with_thread.track_parent") == shared_worker._ready().pid


def test_a_worker_ends_with_a_process_that_forks_its_cases(worker: RestartingWorker) -> None:
    failure = value(worker, "plain.track_kills_its_parent")
    assert isinstance(failure, Failure)
    assert failure.kind == "killed"
    assert value(worker, "third.track_nothing") == 1


@pytest.mark.parametrize(("name", "result"), [("spawn", 1), ("forkserver", 1), ("program", 3)])
def test_a_case_s_own_processes_import_the_suite_and_not_the_worker(
    shared_worker: RestartingWorker, name: str, result: int
) -> None:
    assert value(shared_worker, f"pools.track_{name}") == result


def test_the_processes_of_setup_cache_and_of_timeraw_import_the_suite(
    shared_worker: RestartingWorker, suite: Path, tmp_path: Path
) -> None:
    script = str(get_framework("asv").scripts.suite)
    command = [sys.executable, script, "cache", str(suite), "pools.Cached.track_it", str(tmp_path), str(1 << 20)]
    subprocess.run(command, check=True, env=worker_environment(), timeout=30)
    assert not isinstance(shared_worker.ask([prepare("pools.timeraw_import")], 30.0), Failure)


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (
            "time_coroutine",
            "time_coroutine returns a coroutine, and executes nothing: write a plain function that runs",
        ),
        ("time_returned_coroutine", "time_returned_coroutine returns a coroutine"),
        ("peakmem_coroutine", "peakmem_coroutine returns a coroutine"),
        ("AsyncSetup.time_it", "AsyncSetup.time_it: setup returns a coroutine"),
        ("YieldingTeardown.time_it", "YieldingTeardown.time_it: teardown returns a generator"),
        ("track_coroutine", "track_coroutine returns a coroutine"),
        (
            "mem_generator",
            "mem_generator returns a generator, and executes nothing: write a plain function that iterates",
        ),
    ],
)
def test_what_would_not_be_executed_is_refused(shared_worker: RestartingWorker, operator: str, reason: str) -> None:
    reports = operator.startswith(("track", "mem"))
    failure = (
        value(shared_worker, f"lazy.{operator}") if reports else shared_worker.ask([prepare(f"lazy.{operator}")], 30.0)
    )
    assert isinstance(failure, Failure)
    assert reason in failure.reason


def test_a_generator_is_run_to_its_end(shared_worker: RestartingWorker) -> None:
    for name in ("time_generator", "time_returned_generator"):
        answers = shared_worker.ask([prepare(f"lazy.{name}")], 30.0)
        assert not isinstance(answers, Failure)
        assert answers[0]["call_ns"] > 1e5
    answers = shared_worker.ask([prepare("lazy.peakmem_generator"), {"op": "resident", "calls": 2}], 30.0)
    assert not isinstance(answers, Failure)
    assert answers[1]["bytes"] > 50 << 20
