"""Every command in the README is run: by these tests, or by the CI, which runs those marked `nightly`, too.

A spec on two releases is measured in every run by test_two_releases.py, and commits by test_repo_driver.py.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from made_mxnet_repository import make_frameworks_dir, make_repository

from opduel.reporters import read_report
from opduel.reporters.summary import conclusion

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines() if line.strip()
]
MADE = [command for command in COMMANDS if command.startswith("make ")]
DRIVEN = [command for command in COMMANDS if "repo_driver.py" in command]
INSTALLED = [command for command in COMMANDS if re.match(r"uv tool|opduel ", command)]  # run by test_wheel.py
MEASURED = [command for command in COMMANDS if command not in MADE + DRIVEN + INSTALLED]


def quick(command: str) -> str:
    """With two rounds in place of seconds that it may take: how far it gets must not depend on the machine."""
    return re.sub(r"--time_budget \d+", "--max_rounds 2", command)


def test_there_are_commands() -> None:
    assert MADE == ["make demo"]
    assert MEASURED
    assert DRIVEN
    assert len(INSTALLED) == 3


@pytest.mark.parametrize("command", [*MADE, ".venv/bin/python -m pytest -m nightly tests/end_to_end/test_readme.py"])
def test_the_ci_runs(command: str) -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert any(line == command or line.startswith(f"{command} ") for line in lines)


@pytest.mark.nightly
@pytest.mark.mxnet
@pytest.mark.parametrize("command", MEASURED)
def test_command_runs_and_leaves_its_report(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path)}
    finished = subprocess.run(
        re.sub(r"(?<=[ =])reports\b", str(tmp_path), quick(command)),
        shell=True,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode in (0, 1, 3), finished.stderr
    (report,) = tmp_path.rglob("report.json")
    document = json.loads(report.read_text(encoding="utf-8"))
    expected = {"done": 0, "regressed": 1, "incomplete": 3}[conclusion(read_report(report))]  # 3: on a busy machine
    assert finished.returncode == expected
    assert str(report) in finished.stderr + finished.stdout
    assert all(comparison["rounds"] for comparison in document["comparisons"])
    assert report.with_suffix(".html").exists()


@pytest.mark.nightly
@pytest.mark.mxnet
@pytest.mark.parametrize("command", DRIVEN)
def test_the_driver_builds_measures_and_reports(command: str, tmp_path: Path) -> None:
    """MXNet's own repository can't be had in a test: a made one has the tag, and another commit for the one named."""
    commit = make_repository(tmp_path / "repository")
    make_frameworks_dir(tmp_path / "frameworks", tmp_path / "repository")
    command = re.sub(r"--commit \w+", f"--commit {commit}", command)
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path)}
    places = f"--frameworks_dir {tmp_path / 'frameworks'} --local_reporter {tmp_path / 'found'}"
    finished = subprocess.run(
        f"{quick(command)} {places} --busy_host report",
        shell=True,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode in (0, 1), finished.stderr
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "found").rglob("report.json")]
    (benchmark,) = (report for report in reports if report["run"]["run_type"] == "benchmark")
    assert all(comparison["rounds"] for comparison in benchmark["comparisons"])
    assert (benchmark["treatment"]["strategy"] == "overlay") == ("--commit" in command)
    others = {report["run"]["run_type"] for report in reports if report is not benchmark}
    assert others <= {"verify", "regress"}


def test_its_links_lead_somewhere_and_nothing_is_left_to_fill_in() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) >= 5
    assert not [link for link in links if ":" not in link and not (ROOT / link).exists()]
    assert not re.search(r"@[A-Z]+@", README)
