"""What else differs between the two builds than what was asked for, in the table and in Markdown."""

from dataclasses import replace

import pytest
import report_samples as samples

from opduel.records import Commit, Report
from opduel.reporters.markdown import to_markdown
from opduel.reporters.screen import render


def report_of(control: str, treatment: str, *packages: dict[str, str], python: str = "3.11.7") -> Report:
    usual = samples.report()
    first = replace(usual.control, requested=control, packages=packages[0], python="3.11.7")
    return replace(
        usual,
        control=first,
        treatment=replace(usual.treatment, requested=treatment, packages=packages[1], python=python),
    )


@pytest.mark.parametrize(
    ("requests", "packages", "words"),
    [
        (("numpy==1", "numpy==2"), ({"numpy": "1"}, {"numpy": "2"}), None),
        (("SciPy==1", "SciPy==2"), ({"scipy": "1", "numpy": "1"}, {"scipy": "2", "numpy": "2"}), "numpy 1 and 2"),
        (
            ("scipy==1 numpy==1", "scipy==2 numpy==2"),
            ({"scipy": "1", "numpy": "1"}, {"scipy": "2", "numpy": "2"}),
            None,
        ),
        (("/a", "/b"), ({"a": "1", "b": "1"}, {"b": "2"}), "a 1 and none, b 1 and 2"),
        (
            ("/a", "/b"),
            (dict.fromkeys("vwxyz", "1"), dict.fromkeys("vwxyz", "2")),
            "v 1 and 2, w 1 and 2, x 1 and 2, 2 more",
        ),
    ],
)
def test_what_differs_is_said_before_the_results(
    requests: tuple[str, str], packages: tuple[dict[str, str], dict[str, str]], words: str | None
) -> None:
    report = report_of(*requests, *packages)
    lines = [line for line in render(report, 100).splitlines() if line.startswith("differ ")]
    assert lines == ([] if words is None else [f"differ     {words}"])
    assert (f"Also different: {words}" in to_markdown(report)) == (words is not None)


def test_another_python_is_a_difference() -> None:
    report = report_of("numpy==1", "numpy==2", {}, {}, python="3.12.1")
    assert "differ     python 3.11.7 and 3.12.1\n" in render(report)


def test_numerical_libraries_and_compilers_come_before_packages() -> None:
    report = report_of("numpy==1", "numpy==2", {"numpy": "1", "b": "1"}, {"numpy": "2", "b": "2"})
    details = [{"BLAS of numpy": "OpenBLAS 0.3.23", "compiler cc": "gcc 12"}, {"BLAS of numpy": "OpenBLAS 0.3.29"}]
    control, treatment = (
        replace(build, details=versions)
        for build, versions in zip((report.control, report.treatment), details, strict=True)
    )
    both = replace(report, control=control, treatment=treatment)
    words = "BLAS of numpy OpenBLAS 0.3.23 and OpenBLAS 0.3.29, compiler cc gcc 12 and none, b 1 and 2"
    assert f"Also different: {words}" in to_markdown(both)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"compiler of numpy": "GCC 14.2.1"}, "compiler of numpy GCC 10.2.1 and GCC 14.2.1, b 1 and 2"),
        ({}, "b 1 and 2"),
    ],
)
def test_another_compiler_is_a_difference_where_both_are_known(there: dict[str, str], words: str) -> None:
    report = report_of("numpy==1", "numpy==2", {"numpy": "1", "b": "1"}, {"numpy": "2", "b": "2"})
    control = replace(report.control, details={"compiler of numpy": "GCC 10.2.1"})
    both = replace(report, control=control, treatment=replace(report.treatment, details=there))
    assert f"Also different: {words}" in to_markdown(both)


def test_a_package_is_not_said_to_differ_from_commit_to_commit() -> None:
    report = report_of("0123456789ab", "ba9876543210", {"numpy": "2.3.dev0+1"}, {"numpy": "2.3.dev0+2"})
    commit = Commit("1" * 40, 0, "Ada <ada@toy.example>", "A commit")
    control, treatment = (
        replace(side, version="numpy 2.3", commit=commit) for side in (report.control, report.treatment)
    )
    assert "Also different" not in to_markdown(replace(report, control=control, treatment=treatment))
