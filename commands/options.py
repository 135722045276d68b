"""harness.py's options."""

import argparse

from opduel.commands.ai_pep import add_ai_pep_options
from opduel.commands.option_types import (
    context,
    count,
    directions,
    metrics,
    path,
    pause,
    positive,
    probability,
    rounds,
    seconds,
    seed,
    share,
    threshold,
    variable,
)
from opduel.comparator import DEFAULT_MAX_ROUNDS
from opduel.harness.specs.fields import DTYPES
from opduel.records.single import Profiler
from opduel.reporters import add_reporter_options
from opduel.reporters.arguments import Parser as Parser

DEFAULT_ALPHA = 0.05
PROFILERS: tuple[Profiler, ...] = ("python", "native")
NETWORK_FORMS = (
    "a model of the framework's zoo, a saved symbol (FILE-symbol.json), or a block of a Python file (FILE.py:CLASS)"
)


def harness_parser() -> argparse.ArgumentParser:
    """The parser of harness.py; flag names are AI-PEP's where it has them."""
    parser = Parser(
        prog="harness.py",
        description="Measure two builds of a framework against each other on the cases of a spec; or one build alone "
        "with --single, or with another option that only such a run has. A build that is not given is the one that is "
        "configured, or else the framework's default.",
        epilog="Exit codes: 0 done, no regression; 1 a regression, or a case that fails on the treatment alone; "
        "2 wrong usage or input; 3 not completed, or verdicts held back because the run can't be trusted.",
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "-b",
        "--benchmark_file",
        metavar="SPEC",
        help="the spec, a file that lists operators and their inputs: a path, or the name of one that comes with "
        "opduel (conv, "
        "smoke, operators/unary; run_bench.py --list shows all); not needed with --operators, --category, --inputs, "
        "--network or --int64_tensor",
    )
    what.add_argument(
        "--control",
        metavar="BUILD",
        help="the build to compare with: a release (PACKAGE==VERSION), the folder of a Python environment, or a Python "
        "interpreter",
    )
    what.add_argument("--treatment", metavar="BUILD", help="the build under test, in the same forms as --control")
    what.add_argument(
        "--info",
        metavar="JSON",
        help="both builds in AI-PEP's format, instead of --control and --treatment: JSON, or the path of a JSON file",
    )
    _add_picking(what)
    what.add_argument(
        "--metric",
        type=metrics,
        action="append",
        metavar="METRICS",
        help="one or more, separated by commas: time, instructions (under valgrind), memory, process_memory, error (do "
        "both builds compute the same?); overrides the spec; repeatable",
    )
    what.add_argument(
        "--roofline",
        action="store_true",
        help="measure the host's roofline first, and show how close to it each case comes (where its work is known)",
    )
    what.add_argument("--framework", metavar="NAME", help="end with an error unless the spec is for this framework")
    what.add_argument(
        "-p", "--platform", default="host", metavar="NAME", help="platform name to store in the report (default: host)"
    )
    what.add_argument(
        "--exec_dir",
        type=path,
        metavar="DIR",
        help="the folder in which builds are kept (default: in the user's cache folder)",
    )
    what.add_argument(
        "--model_cache",
        type=path,
        metavar="DIR",
        help="the folder in which files of networks are kept (default: in the user's cache folder)",
    )
    what.add_argument(
        "--breakdown",
        action="store_true",
        help="show the time of each case by operator (default: for networks only, when they changed)",
    )
    what.add_argument(
        "--profile_output",
        type=path,
        metavar="DIR",
        help="after measuring, write the framework's profile of every case to this folder (trace, table, output)",
    )
    what.add_argument(
        "--env",
        type=variable,
        action="append",
        metavar="NAME=VALUE",
        help="a variable for the workers of both sides, such as DNNL_VERBOSE=1; repeatable",
    )
    _add_single_options(parser.add_argument_group("one build alone"))
    how = parser.add_argument_group("how it is decided")
    how.add_argument(
        "--threshold",
        type=threshold,
        action="append",
        metavar="SHARE",
        help="smallest change that matters, where the spec has none (time: 2%%, instructions: 0.5%%); for one metric "
        "alone METRIC=SHARE; repeatable",
    )
    how.add_argument(
        "--alpha",
        type=probability,
        default=DEFAULT_ALPHA,
        metavar="P",
        help="false discovery rate of the run (default: 0.05)",
    )
    how.add_argument(
        "--time_budget",
        type=seconds,
        metavar="SECONDS",
        help="measure for at most this long, with the largest suspected changes first; cases that are still open are "
        "reported "
        "as inconclusive (default: no limit)",
    )
    how.add_argument(
        "--round_log",
        type=path,
        metavar="FILE",
        help="save every round to FILE; repeating the same command resumes the run from there, even after a crash",
    )
    how.add_argument(
        "--max_rounds",
        type=rounds,
        default=DEFAULT_MAX_ROUNDS,
        metavar="N",
        help="the most rounds for a case (a round is a fresh pair of processes): so many to screen it, and as many "
        "again to "
        "confirm a change "
        f"(default: {DEFAULT_MAX_ROUNDS})",
    )
    how.add_argument(
        "--seed",
        type=seed,
        metavar="N",
        help="seed of the random inputs and of the order of measuring (default: drawn at random, and kept in the "
        "report)",
    )
    how.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="compute threads of each measuring process (default: 1)",
    )
    how.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="longest time for one step of a case, such as its preparation; overrides the spec (default: 60)",
    )
    how.add_argument(
        "--inject",
        type=share,
        default=0.0,
        metavar="SHARE",
        help="self-test: slow every second case down on the treatment by this share, and report whether that was found",
    )
    validity = parser.add_argument_group("how far it is trusted")
    validity.add_argument(
        "--sentinels",
        type=count,
        metavar="N",
        help="how many cases are also measured with the control on both sides, to see whether the host invents "
        "differences; "
        "0 for none (default: one in ten, 1 to 4)",
    )
    validity.add_argument(
        "--busy_host",
        choices=("hold", "report"),
        default="hold",
        help="when other load or the A/A checks show that the run can't be trusted: withhold its verdicts (hold, the "
        "default), or show them with a warning (report)",
    )
    validity.add_argument(
        "--verify",
        action="store_true",
        help="measure the cases that changed again, and report only the changes that are confirmed",
    )
    validity.add_argument(
        "--verify_after",
        type=pause,
        metavar="SECONDS",
        help="with --verify: wait this long before measuring again (default: 0)",
    )
    add_reporter_options(parser)
    add_ai_pep_options(parser)
    record = parser.add_argument_group("kept with the report")
    record.add_argument("--user_identifier", metavar="TEXT", help="any text that helps to find the report later")
    record.add_argument(
        "--run_type",
        choices=("benchmark", "verify", "regress"),
        help="why this run is made (default: benchmark; with --verify, verify)",
    )
    return parser


def _add_picking(what: argparse._ArgumentGroup) -> None:
    """Which cases of the spec, and what takes the place of their settings and inputs."""
    what.add_argument(
        "--operators", metavar="PATTERN", action="append", help="only cases whose id or operator matches; repeatable"
    )
    what.add_argument(
        "--category",
        metavar="PATTERN",
        action="append",
        help="with a spec that bundles others, such as all: only these of them (unary, nn_*); repeatable",
    )
    what.add_argument(
        "--inputs",
        metavar="JSON",
        action="append",
        help="inputs for the operators named by --operators, or for --network, in place of a spec's: JSON, or @FILE; "
        "repeatable",
    )
    what.add_argument(
        "--network",
        metavar="NETWORK",
        help=f"measure a whole network, in place of a spec: {NETWORK_FORMS}; goes with --inputs",
    )
    what.add_argument(
        "--with_operators",
        action="store_true",
        help="with --network: also measure each operator call that the network makes",
    )
    what.add_argument(
        "--fuzz",
        type=positive,
        metavar="N",
        help="measure N random inputs for the chosen operators, in place of the spec's, and write a small spec of "
        "those "
        "on which the builds differ",
    )
    what.add_argument(
        "--fuzz_spec",
        type=path,
        metavar="FILE",
        help="with --fuzz: where that spec is written (default: fuzz-SEED.json)",
    )
    what.add_argument(
        "--dtype", choices=DTYPES, help="data type of all tensors that don't set their own; overrides the spec"
    )
    what.add_argument(
        "--ctx", type=context, metavar="CONTEXT", help="where to run: cpu, gpu or gpu(1); overrides the spec"
    )
    what.add_argument(
        "--directions",
        type=directions,
        metavar="DIRECTIONS",
        help="forward, backward, both, or several separated by commas; overrides the spec",
    )
    what.add_argument(
        "--int64_tensor",
        "--int64-tensor",
        type=str.lower,
        choices=("on", "off"),
        help="on: only cases with tensors of more than 2^31-1 elements (-b int64 unless given); off: only others",
    )


def _add_single_options(single: "argparse._ArgumentGroup") -> None:
    """What only a single-build run takes; None or False says that it was not given."""
    single.add_argument(
        "--single",
        action="store_true",
        help="measure one build alone, --treatment; so does every option below that is given without --control",
    )
    single.add_argument("--rounds", type=positive, metavar="N", help="fresh processes for each case (default: 5)")
    single.add_argument(
        "-w", "--warmup", type=count, metavar="N", help="calls in each process before the timed ones (default: 2)"
    )
    single.add_argument(
        "-r",
        "--runs",
        type=positive,
        metavar="N",
        help="timed calls in each process (default: as many as fit into 50 ms, 5 to 1000)",
    )
    single.add_argument(
        "--profiler",
        choices=PROFILERS,
        help="how calls are timed: by a clock around each call (python, the default), or by the framework's own "
        "profiler (native)",
    )
    single.add_argument(
        "-f",
        "--output_format",
        "--output-format",
        choices=("json", "csv", "md"),
        help="how the result is written (default: a table; json for --output_file)",
    )
    single.add_argument("-o", "--output_file", "--output-file", type=path, metavar="FILE", help="where it is written")
    single.add_argument(
        "--baseline",
        type=path,
        metavar="FILE",
        help="an earlier result of one build (json) to compare with: lists the cases that are slower by more than "
        "--threshold "
        "(default: 10%%)",
    )
    single.add_argument(
        "--golden",
        type=path,
        metavar="FOLDER",
        help="save the build's outputs in a new folder, without measuring; with --metric error, compare with the "
        "outputs "
        "saved there",
    )


def variables(options: argparse.Namespace) -> dict[str, str]:
    """What ``--env`` gives; of two values for one name, the later one."""
    return dict(options.env or [])


def by_metric(options: argparse.Namespace) -> dict[str, float]:
    """The thresholds that were given, metric -> share; of two for one metric, the later one."""
    return {metric: value for one in options.threshold or [] for metric, value in one.items()}


def asked_metrics(options: argparse.Namespace) -> list[str]:
    """The metrics that were asked for, each once."""
    return list(dict.fromkeys(name for one in options.metric or [] for name in one))
