"""The framework's own profiles: where they are, and that one that can't be made costs nothing else."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_run import request as toy_request
from test_smoke_check import Toy
from toy_bench import toy_build, toy_case
from watching import Watch

import opduel.harness.profiles
from opduel.harness.other_runs.single import SingleRequest, run_single
from opduel.harness.profiles import INDEX, is_profiles_folder
from opduel.harness.run import run_ab
from opduel.records import Case, Report, RunConfiguration
from opduel.records.run_record import ProfilesRecord


def ab(folder: Path, *cases: Case, env: dict[str, str] | None = None, **environment: str) -> Report:
    easy = [replace(case, threshold=0.5) for case in cases]
    request = replace(toy_request(*easy, **environment), env=env or {})
    return run_ab(request.configured(profile_output=str(folder)))


def trace(path: Path) -> Any:
    return json.loads((path / "trace.json").read_text())


def test_every_case_is_profiled_once_on_either_side_and_its_output_kept(tmp_path: Path) -> None:
    case = toy_case("a/forward")
    memory = replace(case, id="a/forward/memory", metric="memory")
    report = ab(tmp_path, case, memory, env={"GIVEN": "both"}, TOY_BYTES="1,1")
    assert report.run.profile_output == ProfilesRecord(folder=str(tmp_path), written=2)
    for side in ("control", "treatment"):
        folder = tmp_path / "a" / "forward" / side
        profile = trace(folder)
        assert profile["calls"] >= 1
        assert profile["name"] == "a/forward"
        assert (profile["environment"]["TOY_SIDE"], profile["environment"]["GIVEN"]) == (side, "both")
        assert sorted((folder / "output.txt").read_text().splitlines()) == [
            "and something from C",
            "profiling a/forward",
        ]
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["builds"] == {"control": "toy", "treatment": "toy"}
    assert {(entry["case"], entry["side"], entry["folder"]) for entry in index["profiles"]} == {
        ("a/forward", side, f"a/forward/{side}") for side in ("control", "treatment")
    }


def single_request(folder: Path) -> SingleRequest:
    configuration = RunConfiguration(rounds=1, profile_output=str(folder))
    return SingleRequest(Toy(), toy_build("control"), [toy_case("a")], 3, configuration)


def test_of_one_build_alone_no_side_is_named_and_older_files_are_replaced(tmp_path: Path) -> None:
    request = single_request(tmp_path)
    assert run_single(request).run.profile_output.written == 1
    (tmp_path / "a" / "table.txt").write_text("of an earlier run")
    (tmp_path / "a" / "mine.txt").write_text("the user's")
    assert is_profiles_folder(tmp_path)
    assert run_single(request).run.profile_output.problems == ()
    assert {path.name for path in (tmp_path / "a").iterdir()} == {"trace.json", "output.txt", "mine.txt"}


def test_profiles_fit_into_the_time_budget(tmp_path: Path) -> None:
    slow = replace(toy_request(replace(toy_case("a", timeout_s=600.0), threshold=0.5), TOY_PROFILE="sleep"))
    report = run_ab(slow.configured(profile_output=str(tmp_path), time_budget=3.0))
    problem = "the time budget was spent"
    assert report.comparisons[0].samples
    assert list(report.run.profile_output.problems) == [f"a ({side}): {problem}" for side in ("treatment", "control")]


@pytest.mark.nightly
def test_of_one_build_alone_profiles_fit_into_the_time_budget(tmp_path: Path) -> None:
    build = toy_build("control", TOY_PROFILE="sleep")
    case = toy_case("a", timeout_s=600.0)
    configuration = RunConfiguration(rounds=1, time_budget=3.0, profile_output=str(tmp_path))
    report = run_single(SingleRequest(Toy(), build, [case], 3, configuration))
    assert report.cases[0].time is not None
    assert [problem.rpartition(": ")[2] for problem in report.run.profile_output.problems] == [
        "the time budget was spent"
    ]


def test_without_being_asked_nothing_is_profiled() -> None:
    assert run_ab(toy_request(replace(toy_case("a"), threshold=0.5))).run.profile_output is None


@pytest.mark.parametrize(
    ("wrong", "problem"), [("abort", "crash: killed by SIGABRT"), ("refuse", "error: ValueError: no profiler here")]
)
def test_a_profile_that_fails_has_its_reason_and_costs_no_verdict(tmp_path: Path, wrong: str, problem: str) -> None:
    report = ab(tmp_path, toy_case("a"), TOY_PROFILE=wrong)
    assert report.comparisons[0].verdict in ("unchanged", "inconclusive")
    assert (report.run.complete, report.run.aborted) == (True, False)
    record = report.run.profile_output
    assert (record.written, sorted(record.problems)) == (
        0,
        [f"a ({side}): {problem}" for side in ("control", "treatment")],
    )


def test_what_failed_before_is_not_tried_again(tmp_path: Path) -> None:
    record = ab(tmp_path, toy_case("a"), toy_case("bad", "refuse")).run.profile_output
    assert record.written == 2
    assert sorted(record.problems) == [
        f"bad ({side}): ValueError: Shapes (2,) and (3,)" for side in ("control", "treatment")
    ]


def test_a_folder_that_can_not_be_written_is_a_problem_of_its_case(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file where the folder is to be")
    record = ab(tmp_path, toy_case("a"), toy_case("b")).run.profile_output
    assert (record.written, len(record.problems)) == (2, 2)
    assert "a (control): its folder can't be written" in "".join(record.problems)


def test_a_signal_meanwhile_keeps_what_was_measured(tmp_path: Path, watch: Watch) -> None:
    watch.interrupt("write_profile")
    report = ab(tmp_path, toy_case("a"))
    assert report.comparisons[0].control is not None
    assert (report.run.interrupted, report.run.stop_reason) == (True, "stopped by SIGTERM")
    request = single_request(tmp_path)
    watch.interrupt("write_profile")
    alone = run_single(request)
    assert alone.cases[0].time is not None
    assert (alone.run.interrupted, alone.run.stop_reason) == (True, "stopped by SIGTERM")


def test_a_run_that_is_cut_short_has_none(tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt("stopped by SIGINT")

    request = single_request(tmp_path)
    record = run_single(request, interrupt).run.profile_output
    assert record == ProfilesRecord(folder=str(tmp_path), problems=("none was made because the run was aborted",))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["{}", "[]", "no JSON", '{"profiles": []}'])
def test_only_empty_folders_and_our_own_are_written_to(tmp_path: Path, content: str) -> None:
    assert is_profiles_folder(tmp_path)
    (tmp_path / INDEX).write_text(content)
    assert is_profiles_folder(tmp_path) == ("profiles" in content)


def test_no_id_leads_out_of_the_folder_or_into_anothers() -> None:
    names = ["../../etc/forward", "/etc/forward", "a b/forward", "a_b/forward", "A_B/forward", "x" * 300 + "/forward"]
    names += ["名" * 100 + "/forward", "x" * 299 + "/forward", "\ud800/forward"]
    places = opduel.harness.profiles.case_folders([toy_case(name) for name in names])
    assert list(places) == names
    assert len({str(place).casefold() for place in places.values()}) == len(names)
    for place in places.values():
        assert not place.is_absolute()
        assert ".." not in place.parts
        assert max(len(os.fsencode(part)) for part in place.parts) <= 120
    assert opduel.harness.profiles.case_folders([toy_case(name) for name in names[::-1]]) == places
