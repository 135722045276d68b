"""Which commits the driver takes, pass after pass, on a repository that moves, breaks and goes away."""

import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest
from toy_driver import Shared, ToyDriver, toy_driver, wait_for
from toy_project import ToyProject

# Whatever the machine does, no change below one half matters here: these tests are about which commits are taken.
OPTIONS = ("--operators", "add", "--max_rounds", "2", "--sentinels", "0", "--busy_host", "report", "--min_free", "0")


@pytest.fixture
def project(tmp_path: Path) -> ToyProject:
    """A repository of the test's own, with one commit after the first."""
    project = ToyProject(tmp_path / "toy")
    project.commit("Change 1")
    return project


@pytest.fixture
def own(project: ToyProject, shared: Shared, tmp_path: Path) -> ToyDriver:
    return toy_driver(tmp_path, project, shared.caches, options=(*OPTIONS, "--threshold", "50%"))


def treatments(driver: ToyDriver) -> list[str]:
    """The subjects of the commits that were measured, in order."""
    return [report["treatment"]["commit"]["subject"] for report in driver.reports()]


def is_measuring(driver: ToyDriver) -> bool:
    try:
        return bool(driver.journal("SELECT * FROM rounds"))
    except sqlite3.OperationalError:
        return False


def test_a_commit_that_lands_meanwhile_is_measured_without_another_one(own: ToyDriver, project: ToyProject) -> None:
    last, status = own.work / "last", own.work / "status"
    process = own.start("--interval", "0.5", "--commit_file", str(last), "--status_file", str(status))
    wait_for(lambda: is_measuring(own), process)
    landed = project.commit("Change 2")
    wait_for(lambda: last.exists() and last.read_text() == f"{landed}\n", process)
    status.write_text("0\n")
    outcome = own.end(process)
    assert outcome.code == 0, outcome.err
    assert f"{status} contains 0: stopped" in outcome.err
    assert treatments(own) == ["Change 1", "Change 2"]


def test_a_signal_ends_the_wait_for_the_next_pass(own: ToyDriver) -> None:
    last = own.work / "last"
    process = own.start("--interval", "3600", "--commit_file", str(last))
    wait_for(last.exists, process)
    process.send_signal(signal.SIGTERM)
    outcome = own.end(process)
    assert outcome.code == 3, outcome.err
    assert outcome.err.endswith("repo_driver.py: stopped by SIGTERM\n")
    assert treatments(own) == ["Change 1"]


def test_a_checkout_of_the_user_s_is_read_and_never_touched(own: ToyDriver, project: ToyProject) -> None:
    """With a change that was not committed, a file that git does not know, and another branch checked out."""
    project.branch("mine")
    mine = project.commit("Mine alone")
    (project.folder / "README.md").write_text("being written")
    (project.folder / "notes").write_text("mine")
    before = snapshot(project.folder)
    outcome = own.run("--repo_dir", str(project.folder), "--commit", "mine")
    assert outcome.code == 0, outcome.err
    assert [report["treatment"]["commit"]["id"] for report in own.reports()] == [mine]
    assert snapshot(project.folder) == before


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time and content."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_a_disk_with_too_little_space_is_said_before_anything_is_compiled(own: ToyDriver, tmp_path: Path) -> None:
    outcome = own.run("--min_free", "1e9", "--exec_dir", str(tmp_path / "another cache"))
    assert (outcome.code, outcome.out) == (3, "")
    assert "must stay: free some space, or lower --min_free" in outcome.err
    assert own.compile_logs() == []


def test_stopped_before_it_began_it_measures_nothing(own: ToyDriver, tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("0")
    outcome = own.run("--status_file", str(status))
    assert outcome.code == 0, outcome.err
    assert f"{status} contains 0: stopping before" in outcome.err
    assert treatments(own) == []
    assert own.compile_logs() == []


def test_every_second_commit(own: ToyDriver, project: ToyProject) -> None:
    last = own.work / "last"
    own.work.mkdir()
    last.write_text(f"{project.id_of('main')}\n")
    _, third, _ = [project.commit(f"Change {number}") for number in (2, 3, 4)]
    outcome = own.run("--step", "2", "--commit_file", str(last), "--screen_reporter")
    assert outcome.code == 0, outcome.err
    assert outcome.out.count("\ntreatment ") == outcome.out.count("\nthreshold ") == 1  # a table of it
    assert treatments(own) == ["Change 3"]
    assert last.read_text() == f"{third}\n"


def test_a_commit_file_of_another_repository_starts_over(own: ToyDriver) -> None:
    last = own.work / "last"
    own.work.mkdir()
    last.write_text("0" * 40)
    outcome = own.run("--commit_file", str(last))
    assert outcome.code == 0, outcome.err
    assert f"--commit_file {last}: does not name a commit of this repository" in outcome.err
    assert treatments(own) == ["Change 1"]


def test_a_newest_commit_that_cannot_be_built_is_retried_when_due_and_holds_up_no_other(
    own: ToyDriver, project: ToyProject
) -> None:
    last = own.work / "last"
    broken = project.commit("Half a change", broken=True)
    outcome = own.run("--commit_file", str(last))
    assert outcome.code == 3, outcome.err
    assert f"{broken[:12]} can't be built: " in outcome.err
    assert "; to be tried again after 20" in outcome.err
    assert own.journal("SELECT substr(item, 1, 40), attempts FROM troubled") == [(broken, 1)]

    logs = own.compile_logs()
    assert own.run("--commit_file", str(last)).code == 0  # not due yet
    assert own.compile_logs() == logs

    project.commit("The other half")
    outcome = own.run("--commit_file", str(last))
    assert outcome.code == 0, outcome.err
    assert treatments(own) == ["The other half"]

    with sqlite3.connect(own.work / "journal.db") as journal:
        journal.execute("UPDATE troubled SET retry_at = ?", (time.time() - 1,))
    outcome = own.run("--commit_file", str(last))
    assert outcome.code == 3, outcome.err
    assert own.journal("SELECT substr(item, 1, 40), attempts FROM troubled") == [(broken, 2)]
    assert last.read_text() == f"{project.id_of('main')}\n"  # not back to the older one


def test_with_the_remote_gone_it_goes_on_with_the_commits_at_hand(own: ToyDriver, project: ToyProject) -> None:
    url = project.folder.as_uri()
    assert own.run("--remote_repository", url).code == 0
    project.folder.rename(project.folder.with_name("elsewhere"))
    outcome = own.run("--remote_repository", url, "--again")
    assert outcome.code == 3, outcome.err
    assert "continuing with the commits fetched before" in outcome.err
    assert treatments(own) == ["Change 1", "Change 1"]
    assert [kind for (kind,) in own.journal("SELECT kind FROM events")] == ["remote gone"]


def test_a_branch_forced_elsewhere_is_followed_and_said_so(own: ToyDriver, project: ToyProject) -> None:
    last = own.work / "last"
    assert own.run("--commit_file", str(last)).code == 0
    project.branch("main", project.first)
    project.commit("Change 1, otherwise")
    outcome = own.run("--commit_file", str(last))
    assert outcome.code == 0, outcome.err
    assert treatments(own) == ["Change 1", "Change 1, otherwise"]
    texts = [text for kind, text in own.journal("SELECT kind, text FROM events") if kind == "history"]
    assert "no longer on the branch: continuing from" in texts[0]


def test_two_branches_each_with_its_own_commit_file_and_what_fails_on_one_holds_up_no_other(
    own: ToyDriver, project: ToyProject
) -> None:
    project.branch("release/1.x")
    project.commit("A fix for the release")
    project.checkout("main")
    broken = project.commit("Half a change", broken=True)
    both = ("--branch", "main,release/1.x", "--commit_file", str(own.work / "last-{branch}"))

    outcome = own.run("--branch", "main,gone,release/1.x", "--dry_run")
    assert outcome.code == 3, outcome.err
    assert outcome.err.count("error: gone: --branch 'gone': no branch of that name") == 1
    assert [line for line in outcome.out.splitlines() if line.startswith("branch ")] == [
        "branch     main",
        "branch     release/1.x",
    ]
    assert "2 to measure on 1 case" in outcome.out

    outcome = own.run(*both)
    assert outcome.code == 3, outcome.err
    assert f"{broken[:12]} can't be built: " in outcome.err
    assert treatments(own) == ["A fix for the release"]
    assert [report["run"]["branch"] for report in own.reports()] == ["release/1.x"]
    commit_by_file = {path.name: path.read_text().strip() for path in own.work.glob("last-*")}
    assert commit_by_file == {"last-main": broken, "last-release%2F1.x": project.id_of("release/1.x")}


SECRET = "hunter2-and-more"


def files_with(secret: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_password_in_the_url_is_refused_and_kept_nowhere(own: ToyDriver) -> None:
    outcome = own.run("--remote_repository", f"https://ada:{SECRET}@toy.example/toy.git")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    assert "holds a password or token" in outcome.err
    assert files_with(SECRET, own.work) == []


def test_a_token_is_kept_nowhere(own: ToyDriver) -> None:
    driver = own.with_environment(OPDUEL_GIT_TOKEN=SECRET)
    assert driver.run().code == 0
    assert treatments(own) == ["Change 1"]
    assert files_with(SECRET, own.work) == []
    assert files_with(SECRET, own.cache) == []
    assert os.environ.get("OPDUEL_GIT_TOKEN") is None
