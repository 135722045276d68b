"""The asv suite of the tests, and this environment as a build that measures it."""

import sys
from pathlib import Path

from opduel.driver.suites.discovery import Benchmark
from opduel.driver.suites.source import Suite, open_suite
from opduel.frameworks import get_framework
from opduel.records import Build

FIXTURE = Path(__file__).resolve().parent / "fixtures" / "asv_suite"
FRAMEWORK = get_framework("asv")
BUILD = Build("asv", "this one", "interpreter", sys.executable, "1", "3", "d1")
PLAIN = Benchmark("m.time_one", "time", "b.m", (), (), frozenset(), None, None, None, "seconds", "v", None, True)


def opened(text: str, folder: Path) -> Suite:
    return open_suite(text, folder / "cache", folder / "scratch")
