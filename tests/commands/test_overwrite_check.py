"""Files of the user's that a command must not replace: each is refused in one line, and stays as it is."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import report_samples as samples
from command_line import (
    PYTHON_SAME_BUILD,
    PYTHON_SPEC,
    SPEC,
    Outcome,
    driver_main,
    fresh_logging,
    run_bench_main,
    write_spec,
)

from opduel.commands.options import read_options
from opduel.commands.overwrite_check import files_read, refuse_overwriting
from opduel.reporters import write_report

Run = Callable[..., Outcome]


@pytest.fixture
def folder(home: Path) -> Path:
    """A spec, a report, a saved network and notes; ``link`` is the spec by another name."""
    (home / "spec.json").write_text(json.dumps(SPEC))
    (home / "link").symlink_to(home / "spec.json")
    (home / "inputs.json").write_text('{"data": [8, 8]}')
    (home / "hook").write_text("https://host/hook")
    write_report(home / "report.json", samples.report())
    (home / "bundle.json").write_text(json.dumps({"framework": "mxnet", "specs": ["spec.json"]}))
    for name in ("net-symbol.json", "net-0000.params"):
        (home / name).write_text("{}")
    (home / "network.json").write_text('{"nodes": [], "arg_nodes": [], "heads": []}')
    (home / "notes.txt").write_text("my notes\n")
    os.mkfifo(home / "pipe")
    return home


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.is_fifo()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-b spec.json --html_reporter spec.json", "--html_reporter {0}/spec.json: would replace the file of -b"),
        ("-b spec.json --html_reporter link", "--html_reporter {0}/link: would replace the file of -b"),
        ("-b spec.json --export_reporter csv=./spec.json", "would replace the file of -b"),
        ("--operators nd.exp --inputs @inputs.json --html_reporter inputs.json", "would replace the file of --inputs"),
        ("-b spec.json --notify_webhook @hook --export_reporter md=hook", "the file of --notify_webhook"),
        ("-b spec.json --round_log rounds --html_reporter rounds", "would replace the file of --round_log"),
        ("-b bundle.json --html_reporter spec.json", "would replace the file of -b"),
        (
            '--network net-symbol.json --inputs {"data":[1]} --html_reporter net-symbol.json',
            "would replace the file of --network",
        ),
        (
            '--network net-symbol.json --inputs {"data":[1]} --html_reporter net-0000.params',
            "would replace the file of --network",
        ),
        ("-b spec.json --round_log notes.txt", "--round_log notes.txt: is not a round log"),
        ("-b spec.json --treatment mxnet==1.9.1 --output_file spec.json", "would replace the file of -b"),
        ("-b spec.json --treatment mxnet==1.9.1 --output_file pipe", "--output_file pipe: is not a regular file"),
        ("-b spec.json --treatment mxnet==1.9.1 --output_file .", "is a folder"),
        ("-b spec.json --html_reporter pipe", "is not a regular file"),
        ("--convert report.json --to md --output report.json", "would replace the file of --convert"),
        ("--spec_from network.json --output network.json", "would replace the file of --spec_from"),
        ("--spec_from network.json --output pipe.json/", "--output pipe.json: is not a regular file"),
    ],
)
def test_it_is_refused(
    folder: Path,
    arguments: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    (folder / "pipe").rename(folder / "pipe.json") if "pipe.json" in arguments else None
    before = contents(folder)
    with fresh_logging():
        code = run_bench_main(arguments.split())
    captured = capsys.readouterr()
    line = Outcome(code, captured.out, captured.err).error_line()
    assert words.format(folder) in line
    after = contents(folder)
    after.pop("rounds", None)  # begun before anything else is looked at
    assert after == before


@pytest.mark.parametrize("name", ["notes.txt", "spec.json", "pipe", "."])
def test_the_commit_file_is_checked_before_anything_is_fetched(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    words = ["--ab_testing", "-b", "spec.json", "--work_dir", "work", "--remote_repository", "http://127.0.0.1:9/x"]
    with fresh_logging():
        code = driver_main([*words, "--commit_file", name])
    captured = capsys.readouterr()
    line = Outcome(code, captured.out, captured.err).error_line()
    assert f"--commit_file {name}: names no commit" in line
    assert contents(folder) == before


def test_an_output_is_replaced_when_it_is_only_that(folder: Path, run: Run) -> None:
    """Who names a file as the output means it."""
    target = folder / "notes.txt"
    spec = write_spec(folder, PYTHON_SPEC)
    options = ["-b", spec, "--operators", "exp_0", *PYTHON_SAME_BUILD[2:], "--rounds", "1"]
    assert run(*options, "--output_file", str(target)).code == 0
    assert json.loads(target.read_text())["kind"] == "opduel single-build run"


def test_a_baseline_may_be_brought_up_to_date() -> None:
    options = read_options(["-b", "x", "--baseline", "base.json", "--output_file", "base.json"])
    refuse_overwriting(files_read(options, Path("x")), "--output_file", [options.output_file])
