"""opduel conformance: what it can't check is one line with the fix; a suite is checked by its benchmarks."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from opduel.commands.subcommands import SUBCOMMANDS
from opduel.records import UsageError

SUITE = str(Path(__file__).resolve().parents[1] / "fixtures" / "asv_suite")


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """The command sets that of a logger, for the whole process."""
    logger = logging.getLogger("opduel.harness")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--control", "sh"], "-b: is missing: name a spec of the framework, or a suite by --suite"),
        (["-b", "smoke", "--bench", "sum", "--control", "sh"], "--bench: is for a suite's benchmarks: add --suite"),
        (["--suite", "/no/such", "--control", "sh"], "--suite /no/such"),
    ],
)
def test_what_cannot_be_checked_is_one_line(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError) as raised:
        SUBCOMMANDS["conformance"].run("opduel conformance", words)
    assert problem in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.wheels
def test_a_suites_benchmarks_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--suite", SUITE, "--bench", r"kinds\.time_sum", "--control", "numpy==2.2.6", "--check", "refusals"]
    assert SUBCOMMANDS["conformance"].run("opduel conformance", words) == 0
    assert "refusals" in (out := capsys.readouterr().out)
    assert "an unknown argument is not checked" in out
