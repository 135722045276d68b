"""The wheel: what is in it, and the command in a fresh environment, from a folder that is no checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_readme import INSTALLED

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
RELEASE = "mxnet==1.9.1"


def run(command: Sequence[str | Path], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder, env=None, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, as a package index would."""
    folder = tmp_path_factory.mktemp("dist")
    process = run([UV, "build", "--quiet", "--out-dir", folder, ROOT], folder)
    assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def tracked() -> set[str]:
    """The files that git knows below the folders that are linked into the package."""
    links = [path for path in (ROOT / "opduel").iterdir() if path.is_symlink()]
    assert links
    listed = run(["git", "ls-files", *(path.name for path in links)], ROOT).stdout.split()
    return {f"opduel/{name}" for name in listed}


@pytest.mark.nightly
def test_the_wheel_holds_the_package_and_all_of_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"opduel"}
    assert tracked() - names == {"opduel/commands/bootstrap.py"}, "which enters the environment of a checkout"
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


@pytest.mark.nightly
@pytest.mark.mxnet
def test_the_command_works_from_any_folder(wheel: Path, tmp_path: Path) -> None:
    environment, folder = tmp_path / "environment", tmp_path / "empty"
    folder.mkdir()
    assert run([UV, "venv", "--quiet", "--python", sys.executable, environment], folder).returncode == 0
    process = run([UV, "pip", "install", "--quiet", "--python", environment / "bin" / "python", wheel], folder)
    assert process.returncode == 0, process.stderr
    command = environment / "bin" / "opduel"
    assert run([command, "--version"], folder).stdout.startswith("opduel ")
    assert "conv" in run([command, "list", "conv"], folder).stdout
    options = ["--control", RELEASE, "--treatment", RELEASE, "--operators", "softmax", "--time_budget", "60"]
    further = ["--busy_host", "report", "--threshold", "50%", "--local_reporter", "reports", "--json"]
    process = run([command, "compare", "-b", "smoke", *options, *further], folder)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("{")
    assert list(folder.rglob("report.json"))
    assert list(folder.rglob("report.html"))
    inside = run([command, "python", RELEASE, "-c", "import opduel, mxnet; print(opduel.__version__)"], folder)
    assert inside.returncode == 0, inside.stderr
    listed = run([UV, "pip", "show", "--files", "--python", environment / "bin" / "python", "opduel"], folder).stdout
    files = [line.strip() for line in listed.partition("Files:")[2].splitlines() if line.strip()]
    tops = {name.partition("/")[0] for name in files if not name.startswith("../")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"opduel"}
    process = run([environment / "bin" / "python", "-c", "import driver"], folder)
    assert "ModuleNotFoundError" in process.stderr


@pytest.mark.nightly
@pytest.mark.mxnet
def test_the_readmes_installation(tmp_path: Path) -> None:
    """``uv tool install`` in the checkout; then the command, in an empty folder."""
    folder, bin_folder = tmp_path / "empty", tmp_path / "bin"
    folder.mkdir()
    variables = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(bin_folder)}
    paths = {"PATH": f"{bin_folder}:{UV.parent}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path / "state")}
    environment = {**os.environ, **variables, **paths}
    install, *comparisons = INSTALLED
    process = subprocess.run(
        install, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert shutil.which("opduel", path=str(bin_folder))
    for command, case in zip(comparisons, ("np.unique(x)", "run/forward"), strict=True):
        process = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert process.returncode in (0, 1, 3), process.stderr  # 3: the machine is busy
        assert case in process.stdout
    assert len(list(tmp_path.rglob("report.json"))) == len(comparisons)
