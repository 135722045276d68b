"""A command line that can't be understood is answered with the two nearest ones that would have worked."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome, fresh_logging, main
from plain_package import PlainPackage

RELEASES = "numpy==1.26.4 numpy==2.2.6"
Call = Callable[..., str]


@pytest.fixture
def line(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call opduel compare in a checkout with a suite, or ``outside`` of one; return the only line that it says."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    package = PlainPackage(home / "smoother")
    package.write("benchmarks/asv.conf.json", "{}")
    package.commit("Second")
    (home / "outside").mkdir()

    def call(*words: str, outside: bool = False, command: str = "compare") -> str:
        monkeypatch.chdir(home / "outside" if outside else package.folder)
        with fresh_logging():
            code = main([command, *words])
        captured = capsys.readouterr()
        error = Outcome(code, captured.out, captured.err).error_line()
        assert "mxnet" not in error.lower()
        return error

    return call


@pytest.mark.parametrize(
    ("words", "first", "second"),
    [
        ("numpy==1.26.4 numpy==2.2.6", f"`opduel compare {RELEASES} 'np.sort(np.arange(1000.0))'`", "-b numpy"),
        ("numpy==1.26.4", f"`opduel compare {RELEASES} 'np.sort(", "`opduel measure numpy==1.26.4 'np.sort("),
        ("numpy==1.26.4 -b numpy", f"`opduel compare {RELEASES} -b numpy`", "`opduel measure numpy==1.26.4 -b numpy`"),
        ("mypkg==1 mypkg==2", "`opduel compare mypkg==1 mypkg==2 'mypkg.FUNCTION()'`", "--suite FOLDER_OF_BENCHMARKS"),
        (
            "main HEAD",
            "`opduel compare main HEAD 'smoother.FUNCTION()'`",
            "`opduel compare main HEAD --suite benchmarks`",
        ),
        ("main", "`opduel compare main . 'smoother.FUNCTION()'`", "`opduel measure main"),
        ("main HEAD benchmarks", "a suite is given as in `opduel compare main HEAD --suite benchmarks`", ""),
        ("mypkg==1 mypkg==2 --operators smooth", "'mypkg.smooth()'`", "--operators mypkg.smooth --inputs '{"),
        ("numpy==1.26.4 numpy==2.2.6 --operators np.srot", "did you mean numpy.", " or numpy."),
        ("numpy==1.26.4 numpy==2.2.6 --operators sorrt", "did you mean numpy.", " or numpy."),
        ("numpy=1.26.4 numpy==2.2.6 -b numpy", "'numpy=1.26.4' is neither a requirement", "numpy==2.2.6"),
        ("numpy==1.26.4..numpy==2.2.6 x -b numpy", f"give both ends as builds: {RELEASES}", ""),
    ],
)
def test_what_would_have_worked(line: Call, words: str, first: str, second: str) -> None:
    error = line(*words.split())
    assert first in error
    assert second in error


def test_neither_builds_nor_cases(line: Call) -> None:
    assert "`opduel compare HEAD . 'smoother.FUNCTION()'`, or `opduel compare HEAD . --suite benchmarks`" in line()
    assert f"`opduel compare {RELEASES} 'np.sort(np.arange(1000.0))'`, or `opduel run " in line(outside=True)


def test_a_line_in_a_builds_place(line: Call) -> None:
    code = "f(x)"
    assert "`opduel compare v1 HEAD 'f(x)'`" in line("v1..", code)
    assert f"`opduel compare {RELEASES} 'f(x)'`, or in a checkout `opduel compare HEAD . 'f(x)'`" in line(code)
    assert "`opduel compare main . 'f(x)'`, or measure one: `opduel measure main 'f(x)'`" in line("main", code)
    assert "`opduel measure numpy==2.2.6 'f(x)'`" in line(code, command="measure")


def test_builds_of_a_package_and_cases_of_a_framework(line: Call, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="mxnet"):  # the spec is MXNet's
        line(*RELEASES.split(), "-b", "conv")


def test_operators_are_those_of_the_builds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever people call NumPy; of MXNet's there are np.sort, too."""
    for words in ("--operators np.sort", "--operators numpy.sort", "--category sorting --operators np.sort"):
        with fresh_logging():
            assert main(["list", "--control", "numpy==1.26.4", *words.split()]) == 0
        assert "numpy.sort" in capsys.readouterr().out
