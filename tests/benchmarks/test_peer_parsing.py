"""What asv and pyperf print, read back. The texts are what asv 0.6.6 and pyperf 2.10.0 printed."""

import pytest

from benchmarks.peer_tools.real_asv import parse_compare
from benchmarks.peer_tools.real_pyperf import parse_compare_to

ASV = """
All benchmarks:

| Change   | Before [9d2873f6] <control>   | After [1910397c] <treatment>   | Ratio   | Benchmark (Parameter)   |
|----------|-------------------------------|--------------------------------|---------|-------------------------|
|          | 681±200μs                     | 645±200μs                      | ~0.95   | case_0.time_case        |
| +        | 306±50μs                      | 490±100μs                      | 1.60    | case_1.time_case        |
| -        | 152±30μs                      | 95.0±10μs                      | 0.62    | case_2.time_case        |
| !        | 152±30μs                      | failed                         | n/a     | case_3.time_case        |
|          | failed                        | failed                         | n/a     | case_4.time_case        |
"""

PYPERF = """Slower (2):
- dot/forward: 115 us +- 2 us -> 135 us +- 1 us: 1.17x slower
- add/forward: 10.1 us +- 0.1 us -> 10.2 us +- 0.1 us: 1.00x slower

Faster (1):
- topk/backward: 1.70 ms +- 0.01 ms -> 1.20 ms +- 0.01 ms: 1.42x faster

Benchmark hidden because not significant (2): exp/forward, transpose/forward

Geometric mean: 1.05x slower
"""


def test_asv_compare_is_read_row_by_row() -> None:
    cases = ["exp/forward", "dot/forward", "transpose/forward", "a", "b", "without a row"]
    assert parse_compare(ASV, {f"case_{number}.time_case": case for number, case in enumerate(cases)}) == {
        "exp/forward": "same",
        "dot/forward": "slower",
        "transpose/forward": "faster",
        "a": "failed",
        "b": "failed",
        "without a row": "failed",
    }


def test_a_mark_of_asv_that_is_not_known_is_an_error() -> None:
    with pytest.raises(ValueError, match="can't be read"):
        parse_compare("| ? | 1±0μs | 1±0μs | 1.00 | case_0.time_case |", {"case_0.time_case": "exp/forward"})


def test_pyperf_compare_to_is_read_by_section() -> None:
    cases = ["exp/forward", "dot/forward", "transpose/forward", "add/forward", "topk/backward"]
    assert parse_compare_to(PYPERF, cases) == {
        "exp/forward": "same",
        "dot/forward": "slower",
        "transpose/forward": "same",
        "add/forward": "slower",
        "topk/backward": "faster",
    }


def test_a_line_of_pyperf_that_names_no_case_is_an_error() -> None:
    with pytest.raises(ValueError, match="can't be read"):
        parse_compare_to(PYPERF, ["exp/forward"])
