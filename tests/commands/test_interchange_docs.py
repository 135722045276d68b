"""docs/how-to/interchange.md has every format there is, and its commands work in their order."""

import random
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ROOT
from made_reports import build, comparison

from opduel.commands.options import harness_parser
from opduel.commands.run_bench import main
from opduel.records import PairSample, Report
from opduel.reporters import chosen_reporters, write_report
from opduel.reporters.formats import FORMATS
from opduel.reporters.interchange.table import CASE_COLUMNS, RUN_COLUMNS, SAMPLE_COLUMNS

TEXT = (ROOT / "docs" / "how-to" / "interchange.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (python3|benchstat) (.*)$", TEXT, flags=re.MULTILINE)


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a report.json in it."""
    drawn = random.Random(1)
    sides = [[100.0 * drawn.uniform(0.99, 1.01) * ratio for _ in range(10)] for ratio in (1, 1.25)]
    samples = tuple(
        PairSample("conv/forward", "screening", number, before, after, 0.22, 8, 640)
        for number, (before, after) in enumerate(zip(*sides, strict=True))
    )
    case = replace(comparison("regressed"), case="conv/forward", control=100.0, treatment=125.0, samples=samples)
    run = {"id": "20240229T101112Z-7f3a", "spec": "smoke"}
    write_report(tmp_path / "report.json", Report(run, build("mxnet==1"), build("mxnet==2"), {}, (case,)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_work_as_documented(folder: Path) -> None:
    ran = 0
    for program, line in COMMANDS:
        words = shlex.split(line)
        if program == "benchstat" and shutil.which("benchstat") is None:
            continue
        ran += 1
        if words[0] == "run_bench.py":
            assert main(words[1:]) == 0, line
        elif words[0] == "harness.py":
            assert len(chosen_reporters(harness_parser().parse_args(words[1:]), terminal=False)) == 2
        else:
            command = [sys.executable if program == "python3" else program, *words]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            assert re.search("conv/forward|Total number of values: 10", done.stdout)
    assert ran >= len(FORMATS)


def test_every_format_is_in_the_table_and_has_a_section() -> None:
    head, *sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    assert re.findall(r"^\| `([\w-]+)` \|", head, flags=re.MULTILINE) == list(FORMATS)
    named = {name for section in sections for name in section.partition("\n")[0].split(", ")}
    assert set(FORMATS) <= named
    assert {name for name in FORMATS if f"--to {name} " in TEXT} == set(FORMATS)


def test_the_columns_are_documented() -> None:
    section = TEXT.split("## csv, csv-samples")[1].partition("\n## ")[0]
    rows = re.findall(r"^\| .*? \| (.*) \|$", section, flags=re.MULTILINE)
    (_, first, of_cases, of_samples) = rows
    assert re.findall(r"`(\w+)`", first) == list(RUN_COLUMNS)
    assert re.findall(r"`(\w+)`", of_cases) == list(CASE_COLUMNS)
    documented = [
        name for name in re.findall(r"`(\w+)`", of_samples) if name not in ("screening", "confirmation", "verification")
    ]
    assert documented == ["case", "metric", "unit", *SAMPLE_COLUMNS]
