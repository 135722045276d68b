"""Frameworks of other packages: found by entry points in any environment that has them."""

import subprocess
import sys
from pathlib import Path

import pytest

from opduel.frameworks import framework_names

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
from opduel.frameworks.mxnet.framework import MXNet

class Jax(MXNet):
    name = "jax"

class Chat:
    pass
"""
CODE = """
from opduel.frameworks import framework_names, get_framework
print(framework_names())
try:
    print(type(get_framework("jax")).__name__)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def printed(folder: Path, points: str) -> list[str]:
    """What CODE prints where a package has these entry points."""
    (folder / "other_package.py").write_text(MODULE)
    metadata = folder / "other_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[opduel.frameworks]\n{points}\n")
    process = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": f"{folder}:{ROOT}"}, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout.splitlines()


def test_a_package_adds_a_framework(tmp_path: Path) -> None:
    assert printed(tmp_path, "jax = other_package:Jax") == [f"{[*framework_names(), 'jax']}", "Jax"]


@pytest.mark.parametrize(
    ("value", "words"),
    [("other_package:Gone", "cannot be loaded"), ("other_package:MODULE", "cannot be loaded"),
     ("other_package:Chat", "is not a subclass of Framework"), ("gone:Jax", "No module named 'gone'")],
)  # fmt: skip
def test_a_framework_that_can_not_be_loaded_is_named_with_its_package(tmp_path: Path, value: str, words: str) -> None:
    lines = printed(tmp_path, f"jax = {value}")
    assert lines[-1].startswith("UsageError: framework 'jax': ")
    assert words in lines[-1]
    assert "other-package" in lines[-1]
