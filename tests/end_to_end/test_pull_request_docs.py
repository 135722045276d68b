"""docs/how-to/pull-request.md: every command is run, on a checkout whose Python code is that of a real release."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from made_mxnet_repository import TAG, make_frameworks_dir, make_repository

from opduel.commands.opduel import main
from opduel.reporters import read_report

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "how-to" / "pull-request.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
SLOWER = "    for _ in range(3000):\n        pass\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a clone whose work tree makes nd.add slower, and frameworks' data that know its release."""
    folder = tmp_path_factory.mktemp("pull_request")
    make_repository(folder / "remote")
    make_frameworks_dir(folder / "frameworks", folder / "remote")
    for arguments in (["branch", "v1.9.x", TAG], ["checkout", "--quiet", "v1.9.x"]):
        subprocess.run(["git", "-C", folder / "remote", *arguments], check=True)
    subprocess.run(["git", "clone", "--quiet", folder / "remote", folder / "mxnet"], check=True)
    subprocess.run(["git", "-C", folder / "mxnet", "checkout", "--quiet", "-b", "mine"], check=True)
    path = folder / "mxnet" / "python" / "mxnet" / "ndarray" / "ndarray.py"
    head, define, body = path.read_text().partition("def add(lhs, rhs):")
    before, mark, after = body.partition("    # pylint: disable= no-member, protected-access")
    assert mark
    path.write_text(head + define + before + SLOWER + mark + after)
    return folder


def test_there_are_commands_and_all_are_of_the_driver() -> None:
    assert len(COMMANDS) >= 3
    assert all(shlex.split(command)[1] == "~/opduel/repo_driver.py" and "--local" in command for command in COMMANDS)


@pytest.mark.mxnet
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_says_what_it_would_do(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without measuring: the whole catalogue takes an hour."""
    assert run(command, project, monkeypatch, tmp_path, "--dry_run") == 0
    assert "nothing was built or measured" in capsys.readouterr().out


@pytest.mark.mxnet
@pytest.mark.nightly  # made of tests/driver/test_git_local.py, and test_readme.py's driver on an overlay
@pytest.mark.parametrize("command", [command for command in COMMANDS if "--operators" in command])
def test_a_slower_work_tree_is_found(
    command: str, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = command.replace("--operators nd.add", "--operators add_smal[l]/forward")  # one of its three sizes
    assert run(command, project, monkeypatch, tmp_path) == 1
    reports = [read_report(path) for path in (tmp_path / "found").rglob("report.json")]
    assert {report.treatment.strategy for report in reports} == {"overlay"}
    assert any(row.verdict == "regressed" and row.operator == "nd.add" for row in reports[0].comparisons)


def run(command: str, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *options: str) -> int:
    """Run a command of the page in the work tree; returns its exit code."""
    monkeypatch.chdir(project / "mxnet")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    places = ["--frameworks_dir", str(project / "frameworks"), "--local_reporter", str(tmp_path / "found")]
    words = [*shlex.split(command)[2:], *places, *options, "--busy_host", "report"]
    return main(words, script="repo_driver.py")
