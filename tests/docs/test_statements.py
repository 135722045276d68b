"""Statements of the pages that can be checked against the code."""

import ast
import importlib
import re
from pathlib import Path

from opduel.frameworks.mxnet.framework import MXNet

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")])


def test_all_counted_functions_are_named() -> None:
    page = (ROOT / "docs/explanation/instructions.md").read_text(encoding="utf-8")
    for function in MXNet.profiling.counted_functions:
        assert f"`{function.removesuffix('(*)')}`" in page


def test_the_constants_that_were_fixed_are_those_of_the_code() -> None:
    page = (ROOT / "docs/explanation/proof.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)\.py` \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 5
    for path, constants in rows:
        module = importlib.import_module(f"opduel.{path.replace('/', '.')}")
        for name, value in re.findall(r"`(\w+) = ([^`]+)`", constants):
            assert getattr(module, name) == ast.literal_eval(value), (path, name)


PHRASES = re.compile(
    r"whose doing|told of|\b(is|are|was|were|be|been) told\b|\bmend(s|ed|ing)?\b|\bcoins?\b|witness|befell|befallen"
    r"|\b(goes|go|went) before\b|dealt with|said in full|last words|\banew\b|\bloud(er|est)?\b|\bcreep"
    r"|\bheld against|front door|broken off|holds? twice|on the screen\b|\bheed|\bwhom\b|stranger|own doing"
)
ROOTS = (
    "benchmarks",
    "commands",
    "comparator",
    "docs",
    "driver",
    "frameworks",
    "harness",
    "opduel",
    "records",
    "support",
    "reporters",
)
TEXTS = (".py", ".md", ".yaml", ".html", ".js")


def _texts() -> list[Path]:
    paths = [path for root in (*ROOTS, "server") for path in (ROOT / root).rglob("*") if path.suffix in TEXTS]
    return [*ROOT.glob("*.md"), *paths]


def test_texts_use_standard_terms() -> None:
    """Each of these phrases has a plain one: "the commit that caused it", "is reported", "the fix", "noisy", ..."""
    hits = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PHRASES.search(line)
    ]
    assert "\n".join(hits) == ""
