"""Every command in the README is run: by this test, or by the CI."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) for line in block.splitlines() if line.strip()
]
MADE = [command for command in COMMANDS if command.startswith("make ")]
RUN = [command for command in COMMANDS if command not in MADE]


def test_there_are_commands() -> None:
    assert len(MADE) >= 2
    assert len(RUN) >= 4


@pytest.mark.parametrize("command", MADE)
def test_the_ci_runs(command: str) -> None:
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


@pytest.mark.mxnet
@pytest.mark.parametrize("command", RUN)
def test_command_runs_and_leaves_its_report(command: str, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path)}
    finished = subprocess.run(
        command.replace("--local_reporter reports", f"--local_reporter {tmp_path}"),
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
    held_back = any(comparison["held_back"] for comparison in document["comparisons"])
    assert (finished.returncode == 3) == held_back, "on a busy machine, and for no other reason"
    assert str(report) in finished.stderr + finished.stdout
    assert all(comparison["rounds"] for comparison in document["comparisons"])


def test_its_links_lead_somewhere_and_nothing_is_left_to_fill_in() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) >= 5
    assert not [link for link in links if not (ROOT / link).exists()]
    assert not re.search(r"@[A-Z]+@", README)
