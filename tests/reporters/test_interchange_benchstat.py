"""Go benchmark text, read by a parser written from its specification, and by benchstat where there is one."""

import re
import shutil
import statistics
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote

import interchange_samples
import pytest

from opduel.records import Comparison
from opduel.records.measurement import SIDES
from opduel.reporters.interchange.benchstat import PREFIX, legal_name, to_benchstat

Key = tuple[str | None, str, str]  # side, name, unit


@dataclass
class Parsed:
    """What golang.org/design/14313-benchmark-format sees in a text, with the lines for units added later."""

    values: dict[Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    configuration: dict[str, str] = field(default_factory=dict)
    better: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)


def parse(text: str) -> Parsed:
    """Read ``text`` as the specification says: results, ``key: value`` lines, units; all other lines mean nothing."""
    parsed = Parsed()
    for line in text.split("\n"):
        assert len(line.encode()) < 65_536
        if line.startswith("Benchmark"):
            name, calls, value, unit = line.split()
            assert int(calls) > 0
            parsed.values[parsed.configuration.get("side"), name, unit].append(float(value))
        elif match := re.fullmatch(r"Unit (\S+) better=(\S+)", line):
            parsed.better[match[1]] = match[2]
        elif match := re.fullmatch(r"([a-z][^\sA-Z:]*):[ \t]+(.+)", line):
            parsed.configuration[match[1]] = match[2]
        elif line:
            parsed.ignored.append(line)
    return parsed


def test_every_process_is_a_line_on_either_side() -> None:
    parsed = parse(to_benchstat(interchange_samples.report(), None).text)
    for comparison in (*interchange_samples.CHANGED, interchange_samples.HELD):
        own = list(comparison.samples)
        for side in SIDES:
            assert parsed.values[side, PREFIX + comparison.case, "ns/op"] == [getattr(sample, side) for sample in own]
    assert all(line.startswith("# ") for line in parsed.ignored)
    assert "# control build mxnet==1.8.0.post0" in parsed.ignored
    assert parsed.configuration["cpu"] == "AMD EPYC"


def test_a_case_has_one_name_by_all_its_metrics() -> None:
    parsed = parse(to_benchstat(interchange_samples.report(), "treatment").text)
    units = {unit for _, name, unit in parsed.values if name == f"{PREFIX}conv/forward"}
    assert units == {"ns/op", "B/op", "instructions/op"}
    assert parsed.better == dict.fromkeys(units, "lower")
    assert parsed.values[None, f"{PREFIX}conv/forward", "instructions/op"] == [1_234_567.5] * 3


def test_a_unit_of_which_more_is_better_here_and_worse_there_has_no_line() -> None:
    values = [
        replace(interchange_samples.counts(name, "value", unit, 1.0, 2.0), lower_is_better=lower)
        for name, unit, lower in (("hits", "count", False), ("misses", "count", True), ("rate", "MB/s", False))
    ]
    parsed = parse(to_benchstat(interchange_samples.report(*values), None).text)
    assert parsed.better == {"MB/s": "higher"}
    assert not [line for line in parsed.ignored if line.startswith("Unit")]


def test_one_side_has_nothing_that_tells_sides_apart() -> None:
    control, treatment = (parse(to_benchstat(interchange_samples.report(), side).text) for side in SIDES)
    assert control.configuration == treatment.configuration
    assert "side" not in control.configuration
    assert control.values.keys() == treatment.values.keys()


def test_what_has_no_samples_is_counted() -> None:
    assert (
        to_benchstat(interchange_samples.report(), None).left_out
        == "2 failed, 1 without samples (time), 1 without samples (error)"
    )


@pytest.mark.parametrize("case", ["a b", "a%20b", "conv-8", "x/n=3", "é\n", "-", "1", ""])
def test_names_are_legal_and_can_be_read_back(case: str) -> None:
    name = legal_name(case)
    assert re.fullmatch(r"[!-~]+", name)
    assert not re.search(r"-\d+$", name)
    assert unquote(name) == (case or "-")


def shift(comparison: Comparison) -> str:
    """How far the medians of the deciding processes lie apart, as benchstat writes it."""
    own = list(comparison.samples)
    ratio = statistics.median(sample.treatment for sample in own) / statistics.median(sample.control for sample in own)
    return f"{(ratio - 1) * 100:+.2f}%"


@pytest.mark.skipif(shutil.which("benchstat") is None, reason="no benchstat (golang.org/x/perf/cmd/benchstat) here")
def test_benchstat_says_which_way_a_case_went_and_how_far(tmp_path: Path) -> None:
    for side in (*SIDES, None):
        text = to_benchstat(interchange_samples.report(), side).text
        (tmp_path / f"{side or 'both'}.txt").write_text(text, encoding="utf-8")
    for arguments in (["control.txt", "treatment.txt"], ["-col", "side", "both.txt"]):
        command = ["benchstat", "-format", "csv", *arguments]
        process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
        times = process.stdout.partition("instructions/op")[0]
        assert times.count("sec/op") == 2  # one table for a unit: in its head, once for a column
        rows = {line.partition(",")[0]: line for line in times.splitlines()}
        assert f",{shift(interchange_samples.CHANGED[0])},p=0.000 n=12" in rows["Op/conv/forward"]
        assert f",{shift(interchange_samples.CHANGED[1])},p=0.000 n=12" in rows["Op/conv/backward"]
        assert f",{shift(interchange_samples.HELD)},p=0.000 n=12" in rows["Op/conv/held"]
        assert re.search(r",~,p=0\.\d+ n=12", rows["Op/dot"])
