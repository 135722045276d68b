"""Two installations of the same files are alike, by every metric, whatever brought their files into the page cache.

One is read from the first byte of each file to the last, the other page by page as it is used. By the peak of all
resident pages, the memory of the two differs by 5 %; a program's, by 20 %, and its processor time by 6 %.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ONE_FORK, Forked

from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).resolve().parent.parent.parent
MOST = {"time": 0.1, "cpu_time": 0.04, "process_memory": 0.01, "instructions": 0.005, "memory": 0.001}  # of a ratio
HAS_VALGRIND = shutil.which("valgrind") is not None


def lay(folder: Path, *use: str) -> None:
    """Drop all files of a folder from the page cache; then run ``use``, or else read each of them whole."""
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in paths:
        with open(path, "rb") as file:
            os.fdatasync(file)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if use:
        subprocess.run(use, check=True)
    else:
        subprocess.run(["cat", *map(str, paths)], stdout=subprocess.DEVNULL, check=True)  # in steps of 128 KiB


def check_alike(folder: Path, spec: dict[str, Any], control: Path, treatment: Path, cases: int) -> None:
    (folder / "own.json").write_text(json.dumps(spec), encoding="utf-8")
    command = [sys.executable, str(ROOT / "harness.py"), "-b", str(folder / "own.json"), "--busy_host", "report"]
    command += ["--control", str(control), "--treatment", str(treatment), "--threshold", "5%", "--time_budget", "40"]
    process = Forked([*command, "--simple_local_reporter", str(folder / "report")], cwd=folder, first=ONE_FORK)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    comparisons = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))["comparisons"]
    assert len(comparisons) == cases
    for comparison in comparisons:
        assert comparison["verdict"] not in ("regressed", "improved", "failed"), comparison
        assert comparison["ratio"] == pytest.approx(1, abs=MOST[comparison["metric"]]), comparison


@pytest.mark.wheels
def test_two_installations_of_a_package_are_alike(tmp_path: Path) -> None:
    build = resolve_build("numpy==2.2.6", get_framework("python"), BuildCache())
    first, second = Path(str(build.directory)), tmp_path / "installed at another path"
    shutil.copytree(first, second, symlinks=True)
    lay(second, str(second / "bin/python"), "-c", "import numpy")
    lay(first)
    operators = [("numpy.exp", {"args": [[1000]]}), ("numpy.sort", {"a": [1000]})]
    metrics = ["time", "memory", "process_memory", *(["instructions"] if HAS_VALGRIND else [])]
    tests = [{"operator": name, "inputs": inputs, "metric": metrics} for name, inputs in operators]
    check_alike(tmp_path, {"framework": "python", "tests": tests}, first, second, len(operators) * len(metrics))


def test_two_copies_of_a_program_are_alike(tmp_path: Path) -> None:
    (code := tmp_path / "code.py").write_text("def f(a, b=1):\n    return [a + b for _ in range(10)]\n" * 50)
    copies = [tmp_path / name / "ruff" for name in ("first", "second")]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy2(Path(sys.executable).with_name("ruff"), copy)
    arguments = ["check", "--no-cache", "--isolated", "--exit-zero", "--quiet", str(code)]
    lay(copies[1].parent, str(copies[1]), *arguments)
    lay(copies[0].parent)
    tests = [
        {"command": ["{program}", *arguments], "metric": ["time", "cpu_time", "process_memory"], "identifier": "x"}
    ]
    check_alike(tmp_path, {"framework": "generic", "tests": tests}, *copies, 3)
