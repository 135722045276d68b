"""pyperf's format, read by pyperf itself."""

import re
import subprocess
import sys
from pathlib import Path

import interchange_samples
import pyperf
import pytest
from report_samples import validity

from opduel.records import Report
from opduel.records.measurement import SIDES
from opduel.reporters.interchange.pyperf import to_pyperf


def pyperf_says(*arguments: str | Path) -> str:
    """What ``python -m pyperf`` prints; it must end well."""
    command = [sys.executable, "-m", "pyperf", *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def written(folder: Path, report: Report) -> list[Path]:
    """Both files, control first."""
    paths = [folder / f"{side}.json" for side in SIDES]
    for path, side in zip(paths, SIDES, strict=True):
        path.write_text(to_pyperf(report, side).text, encoding="utf-8")
    return paths


def test_compare_to_says_which_way_a_case_went_and_how_far(tmp_path: Path) -> None:
    text = pyperf_says(
        "compare_to", *written(tmp_path, interchange_samples.report()), "--table", "--table-format", "md"
    )
    rows = {row[0]: row[2] for line in text.splitlines() if len(row := [c.strip() for c in line.split("|")[1:]]) > 2}
    assert re.search(r": 1\.05x slower$", rows["conv/forward"])
    assert re.search(r": 1\.25x faster$", rows["conv/backward"])  # as it says 1 / 0.8
    assert re.search(r": 1\.20x slower$", rows["conv/held"])
    assert "dot" in text.partition("not significant")[2]


@pytest.mark.parametrize("arguments", [["check"], ["stats"], ["show", "--metadata"], ["dump", "--quiet"], ["hist"]])
def test_its_other_commands_read_it(tmp_path: Path, arguments: list[str]) -> None:
    control, _ = written(tmp_path, interchange_samples.report())
    text = pyperf_says(*arguments, "-b", "conv/forward", control)
    if arguments[0] == "stats":
        assert "Total number of values: 15" in text
        assert "Loop iterations per value: 640" in text
        assert "Start date: 2024-02-29 10:11:12" in text
    if arguments[0] == "show":
        assert "build: mxnet==1.8.0.post0" in text
        assert "opduel_verdict: regressed" in text
        assert "cpu_model_name: AMD EPYC" in text


def test_values_are_those_of_all_samples_unrounded_and_as_many_on_both_sides() -> None:
    suites = {side: pyperf.BenchmarkSuite.loads(to_pyperf(interchange_samples.report(), side).text) for side in SIDES}
    names = [suites[side].get_benchmark_names() for side in SIDES]
    assert names[0] == names[1]
    for comparison in interchange_samples.report().comparisons:
        if comparison.case in names[0]:
            own = list(comparison.samples)
            for side in SIDES:
                values = suites[side].get_benchmark(comparison.case).get_values()
                scale = 1e9 if comparison.metric == "time" else 1
                assert values == tuple(getattr(sample, side) / scale for sample in own)


def test_units_are_pyperfs() -> None:
    suite = pyperf.BenchmarkSuite.loads(to_pyperf(interchange_samples.report(), "control").text)
    units = {benchmark.get_name(): benchmark.get_unit() for benchmark in suite}
    assert units["conv/forward"] == "second"
    assert units["conv/forward/memory"] == "byte"
    assert units["conv/forward/instructions"] == "integer"
    assert suite.get_benchmark("conv/forward/instructions").get_values() == (1_234_567,) * 3


def test_what_has_no_place_is_counted() -> None:
    left_out = to_pyperf(interchange_samples.report(), "treatment").left_out
    assert sorted(left_out.split(", ")) == [
        "1 in a unit that pyperf doesn't have (tol)",
        "1 without samples (time)",
        "2 failed",
        "2 with values that are not above 0",
    ]


def test_a_start_that_is_no_date_and_a_host_that_is_not_known_are_left_out() -> None:
    report = interchange_samples.report(started="yesterday\n", spec="", validity=validity("busy"), seed=None)
    metadata = pyperf.BenchmarkSuite.loads(to_pyperf(report, "control").text).get_metadata()
    assert not {"date", "spec", "seed"} & set(metadata)
