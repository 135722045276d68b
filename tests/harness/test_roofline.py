"""The host's roofline, measured for real, and what is read off it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_run import request as toy_request
from test_smoke_check import Toy
from toy_bench import toy_build, toy_case

import opduel.harness.other_runs.single
import opduel.harness.run
from opduel.frameworks import worker_environment
from opduel.harness.machine.cpus import measure_roofline, plan_cpus
from opduel.harness.other_runs.single import SingleRequest, run_single
from opduel.harness.run import run_ab
from opduel.records import RunConfiguration, Work, achieved, roof
from opduel.records.host_record import RooflineRecord


def test_the_host_has_a_roofline() -> None:
    roofline = measure_roofline(plan_cpus(1), 1, worker_environment())
    assert roofline.threads == 1
    assert (roofline.copied_bytes or 0) >= 1 << 26
    assert (roofline.gbytes or 0) > 0.01
    assert roofline.gflops["float32"] > roofline.gflops["float64"] > 0.01


PROBE = """
import json, os
with open(__file__ + ".json", "w") as file:
    json.dump({"environment": dict(os.environ), "cpus": sorted(os.sched_getaffinity(0))}, file)
print("{}")
"""


def test_it_is_measured_as_the_workers_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the user's variables nor the user's processors, but those of the workers."""
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    cpus, workers = plan_cpus(1), {**worker_environment(), "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
    measure_roofline(cpus, 1, workers, probe)
    roofline = json.loads(Path(f"{probe}.json").read_text(encoding="utf-8"))
    assert roofline["cpus"] == sorted(cpus.measure)
    confirmation = {"PYTHONPATH", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"}
    assert {name: value for name, value in roofline["environment"].items() if name not in confirmation} == {
        name: value for name, value in workers.items() if name not in confirmation
    }
    assert roofline["environment"]["OMP_NUM_THREADS"] == "1"


def test_a_run_measures_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments_of_calls: list[tuple[Any, ...]] = []

    def noted(*arguments: Any) -> RooflineRecord:
        arguments_of_calls.append(arguments)
        return RooflineRecord(gbytes=1.0, threads=1)

    for module in (opduel.harness.run, opduel.harness.other_runs.single):
        monkeypatch.setattr(module, "measure_roofline", noted)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    ab = run_ab(toy_request(replace(toy_case("a"), threshold=0.5)).configured(roofline=True))
    alone = run_single(
        SingleRequest(Toy(), toy_build("control"), [toy_case("a")], 1, RunConfiguration(rounds=1, roofline=True))
    )
    for (cpus, threads, environment), report in zip(arguments_of_calls, (ab, alone), strict=True):
        assert (cpus, threads, environment) == (plan_cpus(1), 1, report.run.environment)


@pytest.mark.parametrize(
    ("work", "nanoseconds"),
    [
        (Work(1000.0, 10.0, "float32"), 100.0),  # bound by operations: 1000 / 10
        (Work(10.0, 1000.0, "float32"), 500.0),  # bound by bytes: 1000 / 2
        (Work(None, 1000.0, "float32"), 500.0),
        (Work(1000.0, None, "float32"), 100.0),
        (Work(None, None, "float32"), None),
    ],
)
def test_the_roof_is_the_tighter_bound(work: Work, nanoseconds: float | None) -> None:
    assert roof(work, 10.0, 2.0) == nanoseconds


def test_without_a_peak_only_bytes_bind() -> None:
    assert roof(Work(1000.0, 10.0, "float16"), None, 2.0) == 5.0


def test_rates_are_a_nanosecond() -> None:
    assert achieved(Work(300.0, None, "float32"), 100.0).gflops == 3.0
    assert achieved(Work(300.0, None, "float32"), 100.0).gbytes is None
