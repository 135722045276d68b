"""opduel.compare: what it hands to a run, the report that it returns, and the errors that it raises."""

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import report_samples
from made_reports import Measuring, build
from report_samples import comparison, failed

import opduel
from opduel.ab import ABReport, compare
from opduel.driver.version_control import CommandFailed
from opduel.harness.run import InterruptedRunError
from opduel.harness.run_request import RunRequest
from opduel.records import Comparison, Report, RunError, UsageError
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters import read_report
from opduel.reporters.reproduce import reproduction

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "pytest.md").read_text(encoding="utf-8")
SIDES: dict[str, Any] = {"control": "mine", "treatment": Path("theirs")}


def report_of(*comparisons: Comparison, **run: Any) -> ABReport:
    return ABReport.of(
        dataclasses.replace(report_samples.report(comparisons), run=RunRecord.of(report_samples.run(**run)))
    )


@pytest.fixture
def requests(measuring: Measuring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunRequest]:
    """The requests that runs get; each gives a report of one regression. All files are written in ``tmp_path``."""

    def measure(request: RunRequest) -> Report:
        configuration = dataclasses.asdict(request.configuration)
        how = {**report_samples.run(), **asdict(request.labels), "configuration": configuration}
        return Report(
            RunRecord.of(how),
            request.control,
            request.treatment,
            HostRecord(),
            [comparison("exp/forward", "regressed", 1.5)],
        )

    measuring.measure = measure
    measuring.resolve = lambda requested, *_: dataclasses.replace(build(requested), digest=requested)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return measuring.requests


def test_arguments_are_those_of_the_command(requests: list[RunRequest], tmp_path: Path) -> None:
    report = compare(
        **SIDES,
        spec="smoke",
        operators=["softmax", "exp"],
        metrics="time,memory",
        threshold={"time": 0.1, "memory": "5%"},
        time_budget=30.0,
        max_rounds=7,
        seed=3,
        verify=True,
        busy_host="report",
        env={"A": "b=c"},
        ctx="cpu",
        dtype=None,
        roofline=True,
    )
    (request,) = requests
    assert (request.control.requested, request.treatment.requested) == ("mine", "theirs")
    assert {case.operator for case in request.cases} == {"nd.softmax", "nd.exp"}
    assert {(case.metric, case.threshold) for case in request.cases} == {("time", 0.1), ("memory", 0.05)}
    configuration = request.configuration
    assert (configuration.time_budget, configuration.max_rounds, request.seed) == (30.0, 7, 3)
    assert (configuration.verifies_after, configuration.holds, configuration.roofline) == (0.0, False, True)
    assert request.env == {"A": "b=c"}
    assert report.run.command[:2] == ("opduel", "compare")
    assert report.run.command[report.run.command.index("--time_budget") + 1] == "30.0"
    assert reproduction(report).here.startswith("opduel compare --control "), "also in a checkout"
    assert list(tmp_path.iterdir()) == [], "no file is written unless one is asked for"


def test_inputs_in_place_of_a_specs(requests: list[RunRequest]) -> None:
    small, large = ({"lhs": [size, size], "rhs": [size, size]} for size in (8, 16))
    compare(**SIDES, operators="nd.add", inputs=small, directions="forward")
    compare(**SIDES, operators="nd.add", inputs=[small, large], directions="forward")
    assert [len(request.cases) for request in requests] == [1, 2]
    assert requests[0].cases[0].inputs["lhs"] == [8, 8]


def test_neither_config_nor_project_settings_are_read(
    requests: list[RunRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config" / "opduel").mkdir(parents=True)
    (tmp_path / "config" / "opduel" / "config.json").write_text('{"local_reporter": "kept"}')
    (tmp_path / "opduel.toml").write_text("time_budget = 5")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    compare(**SIDES, spec="smoke")
    assert requests[0].configuration.time_budget is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config", "opduel.toml"]


def test_reporters_that_are_named_get_the_report(
    requests: list[RunRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare(**SIDES, spec="smoke", simple_local_reporter=tmp_path / "out", export_reporter=["csv=a.csv", "md=a.md"])
    assert read_report(tmp_path / "out" / "report.json").count("regressed") == 1
    assert (tmp_path / "a.csv").exists()
    assert (tmp_path / "a.md").exists()
    assert capsys.readouterr().out == ""


def test_a_reporter_that_fails_does_not_lose_the_report(
    requests: list[RunRequest], caplog: pytest.LogCaptureFixture
) -> None:
    report = compare(**SIDES, spec="smoke", notify_command="false", notify_unverified=True)
    assert report.verdicts == {"exp/forward": "regressed"}
    assert "--notify_command failed" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"spec": "smokey"}, "similar: smoke"),
        ({"spec": "smoke", "time_bugdet": 3}, "time_bugdet: there is no such option"),
        ({"spec": "smoke", "time_budget": -1}, "time_budget: '-1' is not a number of seconds above 0"),
        ({"spec": "smoke", "metrics": ["tim"]}, "metrics: 'tim' holds 'tim': use one or more of"),
        ({"spec": "smoke", "max_rounds": 2.5}, "max_rounds: '2.5' is not a whole number"),
        ({"spec": "smoke", "dtype": "float31"}, "dtype float31: use one of float16"),
        ({"spec": "smoke", "roofline": "yes"}, "roofline: takes no value: give true or false"),
        ({"spec": "smoke", "ctx": ["cpu", "gpu"]}, "ctx: takes one value: give one"),
        ({"spec": "smoke", "suite": "", "ctx": "cpu"}, "suite: is empty"),
        ({"spec": "smoke", "seed": object}, "seed: give a text, a number, true, false"),
        ({"spec": "smoke", "rounds": 3}, "rounds: only applies to one build"),
        ({"spec": "smoke", "golden": "here"}, "golden: only applies to one build"),
        ({"spec": "smoke", "fuzz": 3}, "fuzz: is for one run"),
        ({"operators": "nd.add", "inputs": {"lhs": object}}, "inputs: Object of type type is not JSON serializable"),
        ({}, "nothing to measure: give builds and a line of Python"),
    ],
)
def test_wrong_arguments(requests: list[RunRequest], wrong: dict[str, Any], error: str) -> None:
    with pytest.raises(UsageError) as raised:
        compare(**SIDES, **wrong)
    assert error in str(raised.value)
    assert ".py" not in str(raised.value)
    assert requests == []


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (RunError("nothing was measured: measure again"), opduel.RunError, "measure again"),
        (InterruptedRunError("nothing was measured: interrupted"), KeyboardInterrupt, "interrupted"),
        (CommandFailed("git fetch", "No space left on device", 128), opduel.RunError, "No space left on device"),
    ],
)
@pytest.mark.usefixtures("requests")
def test_errors_of_the_run(measuring: Measuring, error: RunError, raised: type[BaseException], words: str) -> None:
    def fail(request: RunRequest) -> Report:
        raise error

    measuring.measure = fail
    with pytest.raises(raised, match=words):
        compare(**SIDES, spec="smoke")


def test_a_fleet_is_asked_and_options_for_one_need_one(requests: list[RunRequest], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^fleet_tag: chooses hosts of a fleet: add --fleet"):
        compare(**SIDES, spec="smoke", fleet_tag="quick")
    with pytest.raises(opduel.RunError, match=r"tcp://127\.0\.0\.1:9"):
        compare(**SIDES, spec="smoke", fleet="tcp://127.0.0.1:9", fleet_timeout=0.2)
    assert requests == []


def test_a_run_that_is_interrupted_is_reported_and_then_ends_the_caller(
    requests: list[RunRequest], measuring: Measuring, tmp_path: Path
) -> None:
    measuring.measure = lambda _: report_of(comparison("a"), aborted=True, interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        compare(**SIDES, spec="smoke", simple_local_reporter=tmp_path)
    assert (tmp_path / "report.json").exists()


@pytest.mark.parametrize(
    ("comparisons", "run", "expected"),
    [
        ([comparison("a")], {}, (True, "done", 0, [])),
        ([comparison("a", "regressed", 1.1), comparison("b", "regressed", 2.0)], {}, (False, "regressed", 1, [*"ba"])),
        ([comparison("a"), failed("b")], {}, (False, "regressed", 1, ["b"])),
        ([comparison("a")], {"aborted": True, "stop_reason": "the disk is full"}, (False, "incomplete", 3, [])),
    ],
)  # fmt: skip
def test_what_a_report_comes_to(comparisons: Sequence[Comparison], run: dict[str, Any], expected: object) -> None:
    report = report_of(*comparisons, **run)
    assert (
        report.ok,
        report.conclusion,
        report.exit_code,
        [case_result.case for case_result in report.regressions],
    ) == expected
    assert report.warnings == (["not completed: the disk is full"] if run else [])


def test_a_table_of_cases_and_one_of_samples() -> None:
    pandas = pytest.importorskip("pandas")
    report = ABReport.of(report_samples.report())
    cases = report.to_dataframe()
    assert list(cases["case"]) == [case_result.case for case_result in report.comparisons]
    assert list(cases["verdict"]) == list(report.verdicts.values())
    assert pandas.api.types.is_float_dtype(cases["ratio"])
    assert cases["ratio"].isna().sum() == sum(case_result.ratio is None for case_result in report.comparisons)
    samples = report.to_dataframe(samples=True)
    assert len(samples) == sum(len(case_result.samples) for case_result in report.comparisons) > 0
    assert {"case", "stage", "round", "control", "treatment", "log_ratio"} <= set(samples.columns)


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match=re.escape("install opduel[pandas]")):
        report_of(comparison("a")).to_dataframe()


def test_saving(tmp_path: Path) -> None:
    report = report_of(comparison("a", "regressed", 1.2))
    report.save(tmp_path / "report.json")
    assert ABReport.of(read_report(tmp_path / "report.json")).verdicts == report.verdicts
    report.save(str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with pytest.raises(RunError, match="give another path"):
        report.save(tmp_path / "missing" / "report.json")


def test_as_text_it_is_the_table_of_the_command() -> None:
    assert "regressed (1)" in str(report_of(comparison("exp/forward", "regressed", 1.2)))


def test_a_notebook_shows_a_table_in_which_texts_are_texts() -> None:
    report = report_of(
        comparison("<script>x</script>", "regressed", 1.2), comparison("b"), stop_reason="<b>", complete=False
    )
    html = report._repr_html_()
    assert "&lt;script&gt;x&lt;/script&gt;" in html
    assert "<script" not in html
    assert "<b>" not in html
    assert html.index("regressed</td>") < html.index("unchanged</td>"), "the worst first"
    assert "+20.0 %" in html
    assert "1 regressed, 1 unchanged" in html


def test_a_notebook_shows_so_many_rows() -> None:
    html = report_of(*(comparison(f"case{number}") for number in range(230)))._repr_html_()
    assert html.count("<tr>") == 201
    assert "30 more cases" in html


def test_it_is_loaded_when_it_is_first_used() -> None:
    """Inside a build there are neither numpy nor pydantic."""
    code = (
        "import sys, opduel; print('numpy' in sys.modules, 'compare' in dir(opduel), opduel.compare.__name__, "
        "issubclass(opduel.UsageError, Exception), issubclass(opduel.RunError, Exception), opduel.ABReport.__name__)\n"
        "try: opduel.nothing\nexcept AttributeError as error: print(error)"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.splitlines() == [
        "False True compare True True ABReport",
        "module 'opduel' has no attribute 'nothing'",
    ]


@pytest.mark.nightly  # tests above call it in every way, without measuring
@pytest.mark.mxnet
def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    """With two rounds in place of minutes; on a busy machine its test is skipped, as the page says."""
    _, example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    quick = example.replace("time_budget=120", "max_rounds=2, sentinels=0").replace("threshold=0.1", "threshold=0.5")
    quick = quick.replace(', "dot/forward"', "")
    (tmp_path / "test_speed.py").write_text(quick, encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), **os.environ}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    assert re.search(r"1 (passed|skipped)", process.stdout)
    (path,) = tmp_path.rglob("report.json")
    assert list(ABReport.of(read_report(path)).verdicts) == ["softmax/forward"]
