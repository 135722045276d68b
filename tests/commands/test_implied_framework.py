"""What builds are of, where no option says it; and a command line that can't be understood is one line."""

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
    """Call opduel compare in a checkout; return the only line that it says."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    package = PlainPackage(home / "smoother")
    monkeypatch.chdir(package.folder)

    def call(*words: str, command: str = "compare") -> str:
        with fresh_logging():
            code = main([command, *words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err).error_line()

    return call


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("", "a line of Python (opduel compare numpy==1.26.4 numpy==2.2.6 'np.sort([3, 1])'), a suite with --suite"),
        (RELEASES, "nothing to measure: give builds and a line of Python"),
        ("main HEAD", "nothing to measure: give builds and a line of Python"),
        ("numpy==1.26.4 -b numpy", "treatment: python has no default build: give one"),
        ("f(x)", "f(x): is in a build's place: before lines of Python name control and treatment"),
        ("main f(x)", "f(x): is in a build's place"),
        ("v1.. f(x)", "f(x): is in a build's place"),
        ("mypkg==1 mypkg==2 --operators smooth", "--operators smooth: no spec lists the functions of mypkg"),
        ("main HEAD --operators smooth", "--operators smooth: no spec lists the functions of this package"),
        (f"{RELEASES} --operators np.srot", "did you mean numpy."),
        ("numpy=1.26.4 numpy==2.2.6 -b numpy", "'numpy=1.26.4' is neither a requirement"),
    ],
)
def test_what_can_t_be_understood_is_one_line(line: Call, words: str, error: str) -> None:
    assert error in line(*words.split())


def test_one_build_alone_is_named_before_the_lines(line: Call) -> None:
    assert "f(x): is in a build's place: before lines of Python name treatment" in line("f(x)", command="measure")


def test_operators_are_those_of_the_builds(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever people call NumPy; of MXNet's there are np.sort, too."""
    for words in ("--operators np.sort", "--operators numpy.sort", "--category sorting --operators np.sort"):
        with fresh_logging():
            assert main(["list", "--control", "numpy==1.26.4", *words.split()]) == 0
        assert "numpy.sort" in capsys.readouterr().out
