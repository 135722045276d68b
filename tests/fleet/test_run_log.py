"""What a fleet's run finds in its log: every case is in one shard, whatever has moved, and wherever the log ends."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from made_samples import a_case
from report_samples import CONTROL, TREATMENT, report

from opduel.comparator import RunAnalysis, plan_looks
from opduel.fleet.host import _is_outdated
from opduel.fleet.job import Job
from opduel.fleet.run_log import KIND, LoggedRun, folder_of, identity, read_run
from opduel.frameworks import get_framework
from opduel.harness.run_request import RunRequest
from opduel.records import Case, Report, RunConfiguration
from opduel.records.run_record import RunRecord
from opduel.reporters.document import to_bytes

CASES = [a_case(f"c{number}") for number in range(6)]


class Texts:
    """A round log in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def rounds(self) -> Sequence[str]:
        return self.texts

    def keep(self, text: str) -> None:
        self.texts.append(text)


def request(texts: Texts) -> RunRequest:
    return RunRequest(get_framework("python"), CONTROL, TREATMENT, CASES, 1, log=texts)


def report_of(cases: Sequence[Case]) -> str:
    measured_report: Report = report(RunAnalysis(cases, {}, {}, plan_looks(5)).comparisons())
    return to_bytes(replace(measured_report, cases=tuple(cases))).decode()


def say(texts: Texts, **entry: Any) -> None:
    texts.keep(json.dumps({"kind": KIND, "run": identity(request(texts)), **entry}))


def read(texts: Texts) -> LoggedRun:
    run_request = request(texts)
    return read_run(run_request, identity(run_request), lambda case: 1.0)


def ids(cases: Sequence[Case]) -> list[str]:
    return [case.id for case in cases]


def test_a_run_that_was_not_begun_has_no_shards() -> None:
    texts = Texts()
    assert read(texts) == LoggedRun()
    texts.keep("{damaged")
    texts.keep(json.dumps({"kind": KIND, "run": "another", "event": "cut", "shards": [["c0"]]}))
    assert read(texts) == LoggedRun()


@pytest.mark.parametrize("settled", [2, 0])
def test_what_moved_is_in_other_shards(settled: int) -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES[:4]), ids(CASES[4:])], start="a")
    before = read(texts)
    first = next(iter(before.shards))
    say(texts, event="round", key=first, host="slow", text="{}")
    part = report_of(CASES[:settled]) if settled else None
    parts = [ids(CASES[settled:3]), ids(CASES[3:4])]
    say(texts, event="moved", key=first, host="slow", report=part, shards=parts)
    logged = read(texts)
    assert sorted(case.id for shard in logged.shards.values() for case in shard.cases) == ids(CASES)
    assert [ids(logged.shards[key].cases) for key in logged.shards if key in logged.moved] == parts
    assert logged.given_up == 4 - settled
    assert set(logged.moved.values()) == {logged.given_up}
    assert len({shard.number for shard in logged.shards.values()}) == len(logged.shards)
    assert sum(shard.share for shard in logged.shards.values()) == pytest.approx(1)
    assert {key: (host_part.host, host_part.is_whole) for key, host_part in logged.finished.items()} == (
        {first: ("slow", False)} if settled else {}
    )
    assert not any(logged.rounds.get(key) for key in logged.moved)
    # A text that stands there twice changes nothing, and a new shard's report is its own.
    say(texts, event="moved", key=first, host="slow", report=part, shards=parts)
    key = sorted(logged.moved)[0]
    say(texts, event="report", key=key, host="quick", report=report_of(logged.shards[key].cases))
    again = read(texts)
    assert again.shards == logged.shards
    assert again.given_up == logged.given_up
    assert again.finished[key].host == "quick"


def test_a_move_that_was_not_kept_leaves_the_shard_as_it_was() -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES)], start="a")
    key = next(iter(read(texts).shards))
    say(texts, event="moved", key=key, host="slow", report=report_of(CASES[:2]), shards=[ids(CASES[2:])])
    texts.texts[-1] = texts.texts[-1][:-20]  # a kill cut it off
    logged = read(texts)
    assert [ids(shard.cases) for shard in logged.shards.values()] == [ids(CASES)]
    assert (logged.finished, logged.given_up) == ({}, 0)


def cut_short(cases: Sequence[Case], **run: Any) -> str:
    measured_report: Report = report(RunAnalysis(cases, {}, {}, plan_looks(5)).comparisons())
    record = {**asdict(measured_report.run), "complete": False, "aborted": False, "resumable": True, **run}
    return to_bytes(replace(measured_report, cases=tuple(cases), run=RunRecord.of(record))).decode()


@pytest.mark.parametrize(
    ("had_s", "now_s", "run", "goes_on"),
    [
        (60.0, 120.0, {}, True),
        (60.0, None, {}, True),
        (60.0, 60.0, {}, False),
        (60.0, 30.0, {}, False),
        (None, 120.0, {}, False),
        (60.0, 120.0, {"complete": True}, False),
        (60.0, 120.0, {"aborted": True}, False),
        (60.0, 120.0, {"resumable": False}, False),
    ],
)
@pytest.mark.parametrize("suspects_only", [False, True])
def test_a_shard_that_its_time_cut_short_goes_on_when_there_is_more(
    had_s: float | None, now_s: float | None, run: dict[str, Any], goes_on: bool, suspects_only: bool
) -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES)], start="a")
    key = next(iter(read(texts).shards))
    say(texts, event="report", key=key, host="one", report=cut_short(CASES, **run), time_budget=had_s)
    run_request = replace(request(texts).configured(time_budget=now_s), suspects_only=suspects_only)
    logged = read_run(run_request, identity(run_request), lambda case: 1.0)
    assert (list(logged.earlier), list(logged.finished)) == (([key], []) if goes_on else ([], [key]))
    say(texts, event="report", key=key, host="one", report=cut_short(CASES), time_budget=now_s)
    assert key in read_run(run_request, identity(run_request), lambda case: 1.0).finished


@pytest.mark.parametrize(
    ("had_s", "now_s", "complete", "goes_on"),
    [(60.0, 120.0, False, True), (60.0, None, False, True), (60.0, 60.0, False, False), (60.0, 120.0, True, False)],
)
def test_so_does_what_its_host_has_of_it(
    had_s: float, now_s: float | None, complete: bool, goes_on: bool, tmp_path: Path
) -> None:
    job = Job("run", "key", request(Texts()).configured(time_budget=now_s))
    path = tmp_path / "report.json"
    assert not _is_outdated(job, path)
    path.write_text(
        cut_short(CASES, configuration=asdict(RunConfiguration(time_budget=had_s)), complete=complete), encoding="utf-8"
    )
    assert _is_outdated(job, path) is goes_on
    path.write_text("{", encoding="utf-8")
    assert _is_outdated(job, path)


def test_what_hosts_keep_is_of_one_start_and_of_those_that_go_on_with_it() -> None:
    texts = Texts()
    say(texts, event="cut", shards=[ids(CASES)], start="a")
    folders = {folder_of("run", read(texts).start), folder_of("run", "b"), folder_of("other", "a")}
    assert len(folders) == 3
    assert all(re.fullmatch("[0-9a-f]{16}", name) for name in folders)  # as the host's sweep knows them
