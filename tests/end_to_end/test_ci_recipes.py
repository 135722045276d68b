"""The workflows that opduel init writes: their scripts in bash, in order, in clones as the CI systems make them, with
the wheel of this checkout in place of the package index's.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from plain_package import CODE, SLOWER, PlainPackage

from opduel.commands.init import InitOptions, init

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
SETTINGS = """
[tool.opduel]
threshold = "20%"
busy_host = "report"
[tool.opduel.local]
setup = "import smoother; x = range(1000)"
statement = ["smoother.smooth(x)"]
"""


class Workspace:
    """A clone, of which CI has checked out the merge of a branch into main; and a home of its own."""

    def __init__(self, folder: Path, wheel: Path, host: str) -> None:
        self.folder, self.wheel = folder / "clone", wheel
        self.package = package = PlainPackage(folder / "origin")
        package.write("pyproject.toml", f"{(package.folder / 'pyproject.toml').read_text()}{SETTINGS}")
        init(InitOptions(package.folder, ci=host))
        self.base = package.commit("Settings and a workflow")
        package.git("checkout", "--quiet", "-b", "slower")
        package.write("src/smoother/__init__.py", SLOWER)
        package.commit("Slower")
        package.git("checkout", "--quiet", "--detach", "main")
        package.git("merge", "--quiet", "--no-ff", "--message", "Merge", "slower")
        subprocess.run(["git", "clone", "--quiet", package.folder, self.folder], check=True)
        subprocess.run(["git", "-C", self.folder, "checkout", "--quiet", package.git("rev-parse", "HEAD")], check=True)
        for name in ("summary", "output"):
            (folder / name).touch()
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "PATH": f"{folder / '.local/bin'}:{UV.parent}:{os.environ['PATH']}",
            **{f"XDG_{name}_HOME": str(folder / name.lower()) for name in ("CACHE", "CONFIG", "STATE")},
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
            "GITHUB_ACTIONS": "true",
            "GITHUB_BASE_REF": "main",
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITLAB_CI": "true",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
        }

    def run(self, script: str) -> "subprocess.CompletedProcess[str]":
        """Run a step as the runner does."""
        script = re.sub(r'uv tool install ".*"', f"uv tool install --quiet {self.wheel}", script)
        return subprocess.run(
            ["bash", "-e", "-c", script.replace("pip install --quiet uv", "true")],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        )  # fmt: skip

    def set_code(self, code: str) -> None:
        """Change the branch that is merged."""
        (self.folder / "src/smoother/__init__.py").write_text(code)
        who = ("-c", "user.name=Ada", "-c", "user.email=ada@toy.example")
        subprocess.run(["git", "-C", self.folder, *who, "commit", "--quiet", "-am", "As fast"], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.nightly  # and in the CI
@pytest.mark.wheels
def test_a_slower_pull_request_fails_and_a_repaired_one_passes(wheel: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, wheel, "github")
    document = yaml.safe_load((workspace.folder / ".github/workflows/opduel.yml").read_text())
    install, measure = (step["run"] for step in document["jobs"]["opduel"]["steps"] if "run" in step)
    installed = workspace.run(install)
    assert installed.returncode == 0, installed.stderr
    slower = workspace.run(measure)
    assert slower.returncode == 1, slower.stderr
    assert "::error title=smoother.smooth(x) regressed +" in slower.stdout
    assert "smoother.smooth(x)" in (tmp_path / "summary").read_text()
    assert "\nregressed\n" in (tmp_path / "output").read_text()
    assert list((workspace.folder / "opduel-reports").rglob("report.json"))
    assert list((tmp_path / "cache/opduel/builds").rglob("manifest.json")), "what the cache keeps"
    workspace.set_code(f"{CODE}\n\nANY = 1\n")
    repaired = workspace.run(measure)
    assert repaired.returncode == 0, repaired.stderr
    assert repaired.stdout.count(": installing ") == 1, "the base is in the cache"


@pytest.mark.nightly  # and in the CI
@pytest.mark.wheels
def test_a_slower_merge_request_fails(wheel: Path, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, wheel, "gitlab")
    job = yaml.safe_load((workspace.folder / ".gitlab-ci.yml").read_text())["opduel"]
    ended = workspace.run("\n".join([*job["before_script"], *job["script"]]))
    assert ended.returncode == 1, ended.stderr
    assert 'name="smoother.smooth(x)"' in (workspace.folder / "opduel-reports/opduel.junit.xml").read_text()
    assert (workspace.folder / "opduel-reports/report.json").exists()
