"""run_bench.py --convert: a report.json as what others read."""

import sys
from pathlib import Path

from commands.entry import DONE
from reporters import read_report
from reporters.formats import FORMATS
from reporters.stream import write_text


def convert(report: Path, to: str) -> int:
    """Print the report in the format of that name; returns the exit code.

    Raises:
        UsageError: it can't be read, or is no report.
    """
    write_text(sys.stdout, FORMATS[to](read_report(report)))
    return DONE
