"""repo_driver.py --repo hg: from a Mercurial repository to the changeset that made a native project slower."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_driver import Outcome, ToyDriver, toy_driver, verdicts
from toy_project import AUTHOR, ToyProject

MUL = "mul/float64/forward"


class HgToyProject(ToyProject):
    """The toy project, in a Mercurial repository."""

    def id_of(self, name: str) -> str:
        return self._hg("log", "--rev", name, "--template", "{node}")

    def _commit(self, subject: str, moment: int) -> str:
        self._hg("commit", "--addremove", "--date", f"{moment} 0", "--user", AUTHOR, "--message", subject)
        commit = self.id_of(".")
        self.subjects[commit] = subject
        return commit

    def _git(self, *arguments: str, **_: object) -> str:
        assert arguments[0] == "init", "all else is Mercurial's"
        return self._hg("init")

    def _hg(self, *arguments: str) -> str:
        command = ["hg", "--noninteractive", *arguments]
        process = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert process.returncode == 0, (arguments, process.stderr)
        return process.stdout.strip()


@pytest.mark.nightly
@pytest.mark.measures
def test_a_slow_changeset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HGRCPATH", "")
    if shutil.which("hg") is None:
        pytest.skip("not installed: hg (PyPI's mercurial)")
    project = HgToyProject(tmp_path / "project")
    for number in range(2):
        project.commit(f"Change {number}")
    slow = project.commit("Check every product twice", slow={"mul": 2})
    for number in range(2, 5):
        project.commit(f"Change {number}")
    driver = toy_driver(tmp_path, project)

    planned = run(driver, "--dry_run")
    assert f"treatment  {project.id_of('default')[:12]} 2024-01-08 Ada Toymaker: Change 4\n" in planned.out
    assert f"control    {project.first[:12]} 2024-01-08 Ada Toymaker: A toy" in planned.out

    outcome = run(driver, "--regression")
    assert outcome.code == 1, outcome.err
    assert f"first bad: {slow[:12]} 2024-01-08 Ada Toymaker: Check every product twice\n" in outcome.out
    (path,) = (driver.work / "culprits").glob("*.json")
    (culprit,) = json.loads(path.read_text())["culprits"]
    (bad,) = culprit["bad"]
    assert (bad["commit"], bad["author"]) == (slow, AUTHOR)
    reports = driver.reports()
    assert verdicts(reports[0])[MUL] == "regressed"
    assert {report["treatment"]["commit"]["id"] for report in reports} <= set(project.subjects)

    again = run(driver, "--regression")
    assert driver.reports() == reports, again.err
    project.commit("Change 5")
    run(driver, "--commit", "default", "--base_commit", slow, "--exact_base")
    (new,) = [report for report in driver.reports() if report not in reports]
    assert new["treatment"]["commit"]["id"] == project.id_of("default")
    assert new["control"]["commit"]["id"] == slow
    assert set(verdicts(new).values()) == {"unchanged"}

    unknown = run(driver, "--commit", "0123456789abcdef")
    assert (unknown.code, unknown.err.splitlines()[-1].count("no branch, tag or commit of that name")) == (2, 1)


def run(driver: ToyDriver, *options: str) -> Outcome:
    commit_file = [] if "--commit" in options else ["--commit_file", str(driver.work / "last")]
    return driver.run("--repo", "hg", *commit_file, *options)
