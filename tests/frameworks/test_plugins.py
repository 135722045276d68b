"""Frameworks and reporters of other packages: found by entry points in any environment that has them."""

import subprocess
import sys
from pathlib import Path

import pytest

from opduel.frameworks import framework_names

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
from opduel.frameworks.mxnet.framework import MXNet
from opduel.reporters.base import Reporter

class Jax(MXNet):
    name = "jax"

class Chat(Reporter):
    option = "chat"
    help = "tell a chat"

    @classmethod
    def from_option(cls, value):
        return cls()

    def report(self, report):
        return None

class Second(Chat):
    option = "local_reporter"
"""
CODE = """
import argparse
from opduel.frameworks import framework_names, get_framework
from opduel.reporters import chosen_reporters, reporter_options, add_reporter_options
from opduel.reporters.options import ReporterOptions
print(framework_names())
print("chat" in reporter_options())
parser = argparse.ArgumentParser()
add_reporter_options(parser)
print([type(one).__name__ for one in chosen_reporters(ReporterOptions.of(parser.parse_args(["--chat"])), False)])
try:
    print(type(get_framework("jax")).__name__)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def printed(folder: Path, points: str) -> tuple[list[str], str]:
    """What CODE prints where a package has these entry points, and its standard error."""
    (folder / "other_package.py").write_text(MODULE)
    metadata = folder / "other_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)
    process = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": f"{folder}:{ROOT}"}, cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return process.stdout.splitlines(), process.stderr


def test_a_package_adds_a_framework_and_a_reporter(tmp_path: Path) -> None:
    points = "[opduel.frameworks]\njax = other_package:Jax\n[opduel.reporters]\nchat = other_package:Chat\n"
    lines, errors = printed(tmp_path, points)
    assert lines == [f"{[*framework_names(), 'jax']}", "True", "['Chat']", "Jax"]
    assert errors == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [("other_package:Gone", "cannot be loaded"), ("other_package:MODULE", "cannot be loaded"),
     ("other_package:Chat", "is not a subclass of Framework"), ("gone:Jax", "No module named 'gone'")],
)  # fmt: skip
def test_a_framework_that_can_not_be_loaded_is_named_with_its_package(tmp_path: Path, value: str, words: str) -> None:
    points = f"[opduel.frameworks]\njax = {value}\n[opduel.reporters]\nchat = other_package:Chat\n"
    (folder := tmp_path / "x").mkdir()
    lines, _ = printed(folder, points)
    assert lines[-1].startswith("UsageError: framework 'jax': ")
    assert words in lines[-1]
    assert "other-package" in lines[-1]


def test_a_reporter_that_can_not_be_loaded_stops_nothing(tmp_path: Path) -> None:
    group = "[opduel.reporters]\nchat = other_package:Chat\n"
    lines, errors = printed(tmp_path, group + "bad = other_package:Gone\nsecond = other_package:Second\n")
    assert lines[:3] == [f"{framework_names()}", "True", "['Chat']"]
    assert "reporter bad: not available" in errors
    assert "reporter second: not available (the option --local_reporter already exists)" in errors
