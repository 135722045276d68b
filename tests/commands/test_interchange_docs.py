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
from command_line import ROOT, run_bench_main
from made_reports import build, comparison

from opduel.commands.options import read_options
from opduel.records import PairSample, Report
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord
from opduel.reporters import chosen_reporters, write_report
from opduel.reporters.formats import FORMATS

TEXT = (ROOT / "docs" / "how-to" / "interchange.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (python3|benchstat) (.*)$", TEXT, flags=re.MULTILINE)


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a report.json in it."""
    generator = random.Random(1)
    sides = [[100.0 * generator.uniform(0.99, 1.01) * ratio for _ in range(10)] for ratio in (1, 1.25)]
    samples = tuple(
        PairSample("conv/forward", "screening", number, before, after, 0.22, 8, 640)
        for number, (before, after) in enumerate(zip(*sides, strict=True))
    )
    case = replace(comparison("regressed"), case="conv/forward", control=100.0, treatment=125.0, samples=samples)
    run = {"id": "20240229T101112Z-7f3a", "spec": "smoke"}
    write_report(
        tmp_path / "report.json", Report(RunRecord.of(run), build("mxnet==1"), build("mxnet==2"), HostRecord(), (case,))
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_work_as_documented(folder: Path) -> None:
    for program, line in COMMANDS:
        words = shlex.split(line)
        if program == "benchstat" and shutil.which("benchstat") is None:
            continue
        if words[0] == "run_bench.py":
            assert run_bench_main(words[1:]) == 0, line
        elif words[0] == "harness.py":
            assert len(chosen_reporters(read_options(words[1:]).reporting, terminal=False)) == 2
        else:
            command = [sys.executable if program == "python3" else program, *words]
            process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert process.returncode == 0, process.stderr
            assert re.search("conv/forward|Total number of values: 10", process.stdout)


def test_the_table_has_every_format() -> None:
    assert re.findall(r"^\| `([\w-]+)` \|", TEXT, flags=re.MULTILINE) == list(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_can_be_converted_to(folder: Path, name: str) -> None:
    side = ["--side", "treatment"] if FORMATS[name].sides == "one" else []
    assert run_bench_main(["--convert", "report.json", "--to", name, *side, "--output", "converted"]) == 0
    assert (folder / "converted").exists()
