"""hyperfine's JSON: what its own scripts read of a file."""

import json
import statistics
from dataclasses import replace

import interchange_samples
import pytest

from opduel.records import Case
from opduel.reporters.interchange.hyperfine import to_hyperfine


def test_each_side_of_a_case_is_a_result_in_seconds() -> None:
    report = interchange_samples.report()
    written = to_hyperfine(report)
    results = json.loads(written.text)["results"]
    timed = [comparison for comparison in report.comparisons if comparison.metric == "time" and comparison.samples]
    assert len(results) == 2 * sum(comparison.verdict != "failed" for comparison in timed)
    assert "failed" in written.left_out
    assert "without times (memory)" in written.left_out
    control = results[0]
    assert control["times"] == [sample.control / 1e9 for sample in interchange_samples.CHANGED[0].samples]
    assert control["mean"] == pytest.approx(statistics.fmean(control["times"]))
    assert control["stddev"] == pytest.approx(statistics.stdev(control["times"]))
    assert (control["min"], control["max"]) == (min(control["times"]), max(control["times"]))
    assert control["command"] == f"{report.control.requested}: {timed[0].case}"
    assert control["exit_codes"] == [None] * len(control["times"])


def test_a_program_s_command_has_its_parameters() -> None:
    report = interchange_samples.report()
    inputs = {"command": ["{program}", "big file"], "parameters": {"n": "4"}}
    case = Case(report.comparisons[0].case, "n=4", "forward", inputs, "float32", "cpu", 0.02, 60.0)
    report = replace(
        report,
        control=replace(report.control, requested="gzip -{n}"),
        comparisons=report.comparisons[:1],
        cases=(case,),
    )
    control = json.loads(to_hyperfine(report).text)["results"][0]
    assert (control["command"], control["parameters"]) == ("gzip -4 'big file'", {"n": "4"})
    assert set(control["exit_codes"]) == {0}
