"""run_bench.py --convert: a report.json as what others read."""

from pathlib import Path

from opduel.commands.entry import DONE, log
from opduel.commands.overwrite_check import refuse_overwriting
from opduel.records.measurement import Side
from opduel.reporters import read_report
from opduel.reporters.export import Export
from opduel.reporters.formats import write_format
from opduel.reporters.stream import print_result


def convert(report: Path, to: str, side: Side | None = None, output: str | None = None) -> int:
    """Write the report in the format of that name to ``output``, or else on standard output; returns the exit code.

    ``output`` is as ``Export.file``. What the format has no place for is said on standard error. UsageError: it can't
    be read, or is no report; the format needs a side, or has none; a folder can't be written; RunError: a file, or
    standard output, could not be written.
    """
    document = read_report(report)
    if output is not None:
        target = Export(to, output, "--output", side)
        target.check()
        refuse_overwriting({"--convert": [report]}, "--output", target.files())
        for line in target.write(document):
            log.info("%s", line)
        return DONE
    written = write_format(document, to, side, "--to")
    if written.left_out:
        log.warning("left out: %s", written.left_out)
    print_result(written.text, "give --output")
    return DONE
