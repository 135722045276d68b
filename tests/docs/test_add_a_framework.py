"""The example package of the page "Add a framework": installed, it conforms, and is measured."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-a-framework.md"
EXAMPLE = ROOT / "docs" / "examples" / "opduel-sqlite"
UV = Path(sys.executable).with_name("uv")
MEASURED = ("--operators", "sum", "--max_rounds", "2", "--metric", "time,error", "--busy_host", "report")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the example package."""
    return shutil.copytree(EXAMPLE, tmp_path / "package")


def finished(command: list[str], folder: Path, **variables: str) -> str:
    """What a command that ends in 0 prints."""
    process = subprocess.run(
        command, cwd=folder, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_every_check_is_on_the_page_in_its_order() -> None:
    from opduel.harness.conformance import CHECKS

    table = re.findall(r"^\| `(\w+)` \| ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert table == list(CHECKS)


def test_the_page_is_a_framework(package: Path) -> None:
    """Found by its entry point, as the metadata of an installed package has it; the run of the last check is below."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["opduel.frameworks"]
    metadata = package / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    lines = [f"{name} = {value}\n" for name, value in points.items()]
    (metadata / "entry_points.txt").write_text("[opduel.frameworks]\n" + "".join(lines))
    checks = ("adaptor", "start", "environment", "cases", "refusals", "inputs", "outputs", "directions", "fork")
    chosen = [word for name in checks for word in ("--check", name)]
    command = [sys.executable, "-m", "opduel", "conformance", "-b", "sqlite.json", "--operators", "sql.sum"]
    command += ["--control", sys.executable, *chosen]
    lines = finished(command, package, PYTHONPATH=f"{package}:{ROOT}").splitlines()
    assert [line.split()[:2] for line in lines if " note " not in line] == [[name, "ok"] for name in checks]


@pytest.mark.nightly
def test_the_page_as_an_installed_package(package: Path) -> None:
    """Built and installed into an environment with opduel; its own tests pass there, and it is measured."""
    environment = package.parent / "environment"
    finished([str(UV), "venv", "--quiet", "--python", sys.executable, str(environment)], package)
    python = environment / "bin" / "python"
    install = [str(UV), "pip", "install", "--quiet", "--python", str(python), str(ROOT), "pytest", "."]
    finished(install, package)
    assert "11 passed" in finished([str(python), "-m", "pytest", "-q", "tests"], package)
    opduel = str(environment / "bin" / "opduel")
    sides = ("--control", sys.executable, "--treatment", sys.executable)
    report = json.loads(finished([opduel, "compare", "-b", "sqlite.json", *sides, *MEASURED, "--json"], package))
    failures = {row["case"]: row["failure"] for row in report["comparisons"]}
    assert failures == {"sum_0/forward": None, "sum_0/forward/error": None}
    assert report["run"]["framework"] == "sqlite"
