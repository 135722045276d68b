"""Statements of the pages that can be checked against the code."""

import re
from pathlib import Path

import pytest

from opduel.frameworks.mxnet.framework import MXNet

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])


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


PHRASES = (
    r"whose doing|told of|is told\b|the mend\b|\bcoin\b|witness|befell|goes before|dealt with|said in full|last words"
    r"|\banew\b"
    r"|\bloud(er|est)?\b|\bcreep|held against|front door|broken off|holds? twice|on the screen\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_standard_terms(page: Path) -> None:
    """Each of these phrases has a plain one: "the commit that caused it", "is reported", "the fix", "noisy", ..."""
    found = re.findall(rf".*(?:{PHRASES}).*", page.read_text(encoding="utf-8"))
    assert not found
