"""Statements of the pages that can be checked against the code."""

import re
from pathlib import Path

from frameworks.mxnet.framework import MXNet

ROOT = Path(__file__).resolve().parents[2]


def test_all_counted_functions_are_named() -> None:
    page = (ROOT / "docs/explanation/instructions.md").read_text(encoding="utf-8")
    for function in MXNet.counted_functions:
        assert f"`{function.removesuffix('(*)')}`" in page


def test_the_readme_gives_the_measured_spread() -> None:
    measured = re.search(
        r"case's log ratio over 12 fresh pairs is ([\d.]+ to [\d.]+ %).*single pairs off by up to (\d+ %)",
        (ROOT / "docs/explanation/statistics.md").read_text(encoding="utf-8"),
    )
    assert measured
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"varies by {measured[1]}" in readme
    assert f"off by up to {measured[2]}" in readme
