"""Every run of a command looks for causes, on this host or on the hosts of a fleet."""

import logging
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_reports import comparison

from opduel.causes import find_causes
from opduel.commands.driver_text import culprit_lines
from opduel.commands.harness_adapter import HarnessAdapter
from opduel.commands.options import read_options
from opduel.commands.round_log import FileRoundLog
from opduel.commands.session import Session, plan_session
from opduel.driver.attribution import Change
from opduel.driver.bisection import CulpritRange, Step
from opduel.driver.outcome import Culprit, Outcome
from opduel.driver.revisions import Revision
from opduel.driver.runs import RunOrder
from opduel.fleet.job import Job
from opduel.records import Build, Commit, Comparison, HostRecord, Report, RunRecord, Verdict
from opduel.records.cause import Cause, Examination

BUILD = Build("a", "a", "interpreter", "/a/bin/python", "1.0", "3.11", "digest")
BOTH: tuple[Verdict, Verdict] = ("regressed", "improved")


def test_a_command_s_request_finds_causes_and_brings_that_to_the_hosts_of_a_fleet(tmp_path: Path) -> None:
    options = read_options(["-b", "smoke", "--local_reporter", str(tmp_path)])
    request = plan_session(options, {}, []).request(BUILD, BUILD)
    assert request.find_causes is find_causes
    job = Job("run", "1", request)
    assert pickle.loads(pickle.dumps(job)).request.find_causes is find_causes


def test_the_first_bad_commit_is_logged_before_its_causes_are_looked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    session = plan_session(read_options(["-b", "smoke", "--local_reporter", str(tmp_path)]), {}, [])
    slower, faster = (replace(comparison(verdict, number=number), cause=None) for number, verdict in enumerate(BOTH))
    treatment = replace(BUILD, commit=Commit("1" * 40, 0, "Ada", "Sum slowly"))
    order = RunOrder("x", "regress", BUILD, treatment, FileRoundLog(tmp_path / "log", lambda: 1))
    order = replace(order, first_bad={slower.case: "regressed", faster.case: "regressed"})

    def find(comparisons: Sequence[Comparison], *_: object) -> list[Comparison]:
        logging.getLogger("opduel").info("looking for causes")
        return list(comparisons)

    request = replace(session.request(BUILD, treatment), find_causes=find)
    monkeypatch.setattr(Session, "request", lambda *_: request)
    find_causes: Any = HarnessAdapter(session)._request(order).find_causes
    assert find_causes([slower, faster], None, None, None) == [slower, faster]
    find_causes([faster], None, None, None)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"first bad: {treatment.commit.words} ({slower.case})", *["looking for causes"] * 2]  # type: ignore[union-attr]
    assert HarnessAdapter(session)._request(replace(order, first_bad={})).find_causes is find


def test_a_culprit_s_changes_that_nothing_explains_are_said_in_one_line() -> None:
    """Fifteen cases had the same sentence each."""
    seen = Cause("not explained: _call: 3 % more; resources: no difference")
    changed = replace(seen, examinations=(Examination("Python functions", "ns", 3, changed={"pkg.f": "pkg.py:1"}),))
    explained = Cause("1 new call of f: 98 % [97, 99] of the change")
    causes = {"a": seen, "b": explained, "c": changed, "d": changed, "e": explained}
    steps = {case: Step("regressed", Change(0.1, 0.09, 0.11)) for case in causes}
    culprit = Culprit(
        CulpritRange(0, 1, steps), (Revision("1.0", lambda: BUILD), Revision("1.1", lambda: BUILD)), ("7",), causes
    )
    benchmark = Report(RunRecord.of({"id": "1"}), BUILD, BUILD, HostRecord(), ())
    lines = culprit_lines(Outcome(benchmark, confirmed=tuple(causes), culprits=(culprit,)))
    assert [line.strip() for line in lines if not line.startswith("  ") or "regressed" not in line] == [
        "first bad: 1.1",
        "cause: 1 new call of f: 98 % [97, 99] of the change",
        "cause: 1 new call of f: 98 % [97, 99] of the change",
        "cause of 3 cases: not explained by anything that was looked at (opduel explain shows what was)",
        "changed and run by this case: pkg.f (pkg.py:1)",
    ]
    alone = replace(culprit, range=replace(culprit.range, cases={"a": steps["a"]}))
    assert culprit_lines(Outcome(benchmark, culprits=(alone,)))[-1] == f"  {seen.words}"
