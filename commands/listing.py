"""run_bench.py --list: every case of every spec, with its operator and the spec that it is in."""

import fnmatch
import re
import sys

from opduel.commands.case_selection import choose_cases
from opduel.commands.entry import DONE
from opduel.commands.harness_options import HarnessOptions
from opduel.harness.specs import find_spec, is_bundle, list_specs, load_cases
from opduel.records import UsageError
from opduel.reporters.stream import print_result
from opduel.reporters.text import align

Row = tuple[str, str, str]


def list_cases(pattern: str, options: HarnessOptions | None = None) -> int:
    """Print the cases that match: tab-separated, or in columns on a terminal; returns the exit code.

    They are all that there are, or with ``options`` those that harness.py would measure. UsageError: none matches, or
    the options are wrong.
    """
    rows = [row for row in (_rows() if options is None else _chosen(options)) if _matches(row, pattern)]
    if not rows:
        fix = "use a part of a case's id, of an operator or of a spec"
        raise UsageError(f"nothing matches {pattern!r}: {fix}")
    lines = align(rows, left_columns=3) if sys.stdout.isatty() else ["\t".join(row) for row in rows]
    print_result("".join(f"{line}\n" for line in lines))
    return DONE


def _rows() -> list[Row]:
    """Case id, operator and spec; a bundle's cases are those of its specs, and stand there."""
    rows: list[Row] = []
    for name in list_specs():
        path = find_spec(f"specs/{name}")
        if not is_bundle(path):
            rows += [(case.id, case.operator, name) for case in load_cases(path)]
    return rows


def _chosen(options: HarnessOptions) -> list[Row]:
    if options.suite is not None:
        raise UsageError("the benchmarks of a --suite are known only once builds are measured")
    choice = choose_cases(options, options.seed or 0)
    where = choice.path.name if choice.path else choice.name
    return [(case.id, case.operator, where) for case in choice.cases]


def _matches(row: Row, pattern: str) -> bool:
    """A glob over the whole of an entry, or, without ``*?[``, a part of it."""
    glob = pattern if re.search(r"[*?[]", pattern) else f"*{pattern}*"
    return any(fnmatch.fnmatchcase(entry, glob) for entry in row)
