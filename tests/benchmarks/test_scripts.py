"""Every script of benchmarks/ starts, and says what it does."""

import subprocess
import sys

import pytest

from benchmarks.bench import ROOT

SCRIPTS = [path for path in sorted((ROOT / "benchmarks").glob("*.py")) if path.read_text().startswith("#!")]


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_is_printed(script: object) -> None:
    process = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "usage: " in process.stdout
