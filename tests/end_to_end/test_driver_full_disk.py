"""The driver on a disk that is full, or gets full: it says where and what to do, and goes on when there is room."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forked import Forked
from toy_driver import Outcome, Shared, ToyDriver, toy_driver, wait_for
from toy_project import ToyProject

OPTIONS = ("--operators", "add", "--max_rounds", "2", "--sentinels", "0", "--busy_host", "report", "--min_free", "0")


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    project = ToyProject(tmp_path / "toy")
    project.commit("Change 1", docs_only=True)
    return project


@pytest.fixture
def own(project: ToyProject, shared: Shared, tmp_path: Path, small_disk: Any) -> ToyDriver:
    """With its work directory on the small disk; reports and output are elsewhere."""
    driver = toy_driver(tmp_path, project, shared.caches, options=(*OPTIONS, "--threshold", "50%"))
    return replace(driver, work=small_disk.path / "work")


def start(driver: ToyDriver, folder: Path, *arguments: str) -> Forked:
    """With its output in ``folder``, and not in the work directory."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        command = driver.command(*arguments, "--local_reporter", str(folder / "reports"))
        return driver.fork(command, stdout=out, stderr=err)


def end(process: Forked, folder: Path) -> Outcome:
    return Outcome(process.wait(300), (folder / "out").read_text(), (folder / "err").read_text())


@pytest.mark.parametrize("interval", [(), ("--interval", "1")], ids=["once", "for ever"])
def test_full_at_the_start_it_names_the_folder_and_the_fix(
    own: ToyDriver, tmp_path: Path, small_disk: Any, interval: tuple[str, ...]
) -> None:
    small_disk.fill()
    outcome = end(start(own, tmp_path, *interval), tmp_path)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith(f"repo_driver.py: error: {own.work}")
    assert outcome.err.endswith(": No space left on device: free some space, or give another folder with --work_dir\n")
    assert outcome.err.count("\n") == 1


def test_going_on_for_ever_it_takes_up_what_a_full_disk_kept_it_from(
    own: ToyDriver, project: ToyProject, tmp_path: Path, small_disk: Any
) -> None:
    last, status = tmp_path / "last", tmp_path / "status"
    process = start(own, tmp_path, "--interval", "0.5", "--commit_file", str(last), "--status_file", str(status))
    wait_for(last.exists, process)
    small_disk.fill()
    landed = project.commit("Change 2", docs_only=True)
    wait_for(lambda: "free some space" in (tmp_path / "err").read_text(), process)
    assert last.read_text() != f"{landed}\n"
    small_disk.free()
    wait_for(lambda: last.read_text() == f"{landed}\n", process)
    status.write_text("0\n")
    outcome = end(process, tmp_path)
    assert outcome.code == 0, outcome.err
    assert "internal error" not in outcome.err
    assert "Traceback" not in outcome.err
    space_lines = [line for line in outcome.err.splitlines() if "free some space" in line]
    assert any(f"{own.work}" in line for line in space_lines), space_lines
