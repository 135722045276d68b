"""docs/explanation/found.md: its commands and builds are valid, and each case of its specs has its issue there."""

import re
import shlex
from pathlib import Path

import pytest

from opduel.commands.case_selection import choose_cases
from opduel.commands.driver_options import parse_driver_options
from opduel.commands.options import read_options
from opduel.harness.specs import expand_cases, find_spec, load_spec

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explanation" / "found.md").read_text(encoding="utf-8")
ISSUE = re.compile(r"^\| \[(.+) #(\d+)\]\(\S+\) \| .+? \| `(.+?)` \| `(.+?)` \|", re.MULTILINE)
SECTIONS = {
    title: ISSUE.findall(text)
    for title, _, text in (section.partition("\n") for section in PAGE.split("\n## ")[1:])
    if ISSUE.search(text)
}
ISSUES = [issue for issues in SECTIONS.values() for issue in issues]
PREFIXES = {"NumPy": "numpy", "SciPy": "scipy", "pandas": "pandas", "scikit-learn": "sklearn", "ONNX Runtime": "ort"}


def test_the_commands_are_valid() -> None:
    commands = dict(re.findall(r"^ +python3 (harness|repo_driver)\.py (.*)$", PAGE, flags=re.MULTILINE))
    options = read_options(shlex.split(commands["harness"]))
    assert choose_cases(options, 0).cases
    driver_options = parse_driver_options(shlex.split(commands["repo_driver"]))
    assert len(driver_options.own.bisect_releases.split(",")) > 2
    assert choose_cases(driver_options.harness, 0).cases


@pytest.mark.parametrize(("project", "number", "control", "treatment"), ISSUES)
def test_an_issue_has_cases_and_two_builds_that_differ_in_one_package(
    project: str, number: str, control: str, treatment: str
) -> None:
    spec = "found_onnxruntime" if project == "ONNX Runtime" else "found"
    arguments = ["-b", spec, "--operators", f"{PREFIXES[project]}{number}*", "--control", control]
    assert choose_cases(read_options([*arguments, "--treatment", treatment]), 0).cases
    assert len(set(control.split()) ^ set(treatment.split())) == 2


def test_every_case_has_its_issue_on_the_page() -> None:
    names = {f"{PREFIXES[project]}{number}" for project, number, *_ in ISSUES}
    cases = [case.id for name in ("found", "found_onnxruntime") for case in expand_cases(load_spec(find_spec(name)))]
    assert {case.partition("_")[0] for case in cases} == names


def test_the_counts_are_those_of_the_tables() -> None:
    counts = re.search(r"takes (\d+) performance.* (\d+) were reproduced, (\d+) were not, and (\d+) stayed", PAGE)
    assert counts
    assert [int(count) for count in counts.groups()] == [len(ISSUES), *map(len, SECTIONS.values())]
