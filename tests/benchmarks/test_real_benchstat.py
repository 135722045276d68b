"""benchmarks/real_benchstat.py: reads the real program's CSV, and says what is wrong with one that isn't it."""

import subprocess
import sys

import pytest

from benchmarks import real_benchstat
from opduel.records import UsageError

# what `benchstat -format csv control.txt treatment.txt` of golang.org/x/perf (2026-06-10) printed for three benchmarks
SAID = """\
,control.txt,,treatment.txt,,,
,sec/op,CI,sec/op,CI,vs base,P
0,1.015e-07,∞,1.1150000000000001e-07,∞,+9.85%,p=0.029 n=4
1,6.5e-09,∞,6.5e-09,∞,~,p=1.000 n=4
2,2.115e-07,∞,2.015e-07,∞,-4.73%,p=0.029 n=4
geomean,5.186765222293844e-08,,5.266083707217886e-08,,+1.53%,
"""


def test_each_sample_has_the_answer_of_its_row() -> None:
    assert real_benchstat._parsed("benchstat", SAID, 3) == ["slower", "same", "faster"]


def test_output_with_a_sample_missing_is_an_error() -> None:
    with pytest.raises(UsageError, match="answered 3 of 4 samples"):
        real_benchstat._parsed("benchstat", SAID, 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--benchstat", "/no/such/benchstat"], "--benchstat /no/such/benchstat: "),
        (["--benchstat", "true"], "--benchstat true: answered 0 of "),
        (["--benchstat", "true", "--data", "/no/such/file"], "--data /no/such/file: no comparison"),
        (["--benchstat", "true", "--digits", "-1"], "argument --digits: "),
        (["--benchstat", "true", "--runs", "0"], "argument --runs: "),
    ],
)
def test_wrong_usage_says_what_to_change_with_exit_code_2(arguments: list[str], said: str) -> None:
    done = subprocess.run([sys.executable, real_benchstat.__file__, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
