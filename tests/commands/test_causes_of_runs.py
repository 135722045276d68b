"""Every run of a command looks for causes, on this host or on the hosts of a fleet."""

import pickle
from dataclasses import replace
from pathlib import Path

from opduel.causes import find_causes
from opduel.commands.driver_text import culprit_lines
from opduel.commands.options import read_options
from opduel.commands.session import plan_session
from opduel.driver.attribution import Change
from opduel.driver.bisection import CulpritRange, Step
from opduel.driver.outcome import Culprit, Outcome
from opduel.driver.revisions import Revision
from opduel.fleet.job import Job
from opduel.records import Build, HostRecord, Report, RunRecord, Verdict
from opduel.records.cause import Cause, Examination

BUILD = Build("a", "a", "interpreter", "/a/bin/python", "1.0", "3.11", "digest")
BOTH: tuple[Verdict, Verdict] = ("regressed", "improved")


def test_a_command_s_request_finds_causes_and_brings_that_to_the_hosts_of_a_fleet(tmp_path: Path) -> None:
    options = read_options(["-b", "smoke", "--local_reporter", str(tmp_path)])
    request = plan_session(options, {}, []).request(BUILD, BUILD)
    assert request.find_causes is find_causes
    job = Job("run", "1", request)
    assert pickle.loads(pickle.dumps(job)).request.find_causes is find_causes


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
