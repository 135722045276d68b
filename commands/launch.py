"""From words to a run: they are parsed and checked, then what measures is imported and called.

Each function gets what was called (``opduel compare``, ``harness.py``), for messages and the report, and the words
behind that; it returns the exit code, or raises an OpduelError that has it.
"""

from collections.abc import Sequence

from opduel.commands.ai_pep import of_one_build
from opduel.commands.driver_options import parse_driver_options
from opduel.commands.option_rules import check_options, check_run, check_spec, refuse_options
from opduel.commands.options import read_options
from opduel.commands.recorded_options import recorded

CALIBRATED_SPEC = "smoke"


def run_harness(program: str, words: Sequence[str]) -> int:
    """Measure two builds, or one, as harness.py's options say."""
    options = of_one_build(read_options(words, program))
    check_options(options)
    from opduel.commands import harness

    return harness.run_harness(options, recorded(program, words))


def run_driver(program: str, words: Sequence[str]) -> int:
    """Measure commits or releases as repo_driver.py's options say."""
    options = parse_driver_options(words, program)
    if options.own.local is None:  # else a checkout may have a suite of its own
        check_run(options.harness)
        check_spec(options.harness)
    from opduel.commands import repo_driver

    return repo_driver.run_driver(options, recorded(program, words))


def run_calibration(program: str, words: Sequence[str]) -> int:
    """Measure one build against itself; the options are harness.py's, and the spec may be left out."""
    options = read_options(["-b", CALIBRATED_SPEC, *words], program)
    refuse_options(options, "two builds", "several runs", "calibration")
    check_run(options)
    check_spec(options)
    from opduel.commands import calibrate

    return calibrate.calibrate(options)
