"""harness.py's options."""

from collections.abc import Collection, Sequence

from opduel.commands import option_types as types
from opduel.commands.ai_pep import add_ai_pep_options, host_platform
from opduel.commands.fleet_options import add_fleet_options
from opduel.commands.harness_options import HarnessOptions
from opduel.records import USUAL_ROUNDS, rounds_at
from opduel.records.case import MAX_INPUT_SETS
from opduel.records.configuration import SMALL_THRESHOLD
from opduel.records.measurement import Profiler
from opduel.reporters.arguments import AddOption as AddOption
from opduel.reporters.arguments import Parser as Parser
from opduel.reporters.options import add_reporter_options
from opduel.support.command_names import command_name

PROFILERS: tuple[Profiler, ...] = ("python", "native")
NETWORK_FORMS = (
    "a model of the framework's zoo, a saved symbol (FILE-symbol.json), or a block of a Python file (FILE.py:CLASS)"
)


def read_options(
    arguments: Sequence[str] | None, program: str = "harness.py", read_before: Collection[str] = ()
) -> HarnessOptions:
    """Parse a command line of ``program``, by default this process's; ``read_before``: further options of it, which
    this one doesn't have. UsageError: an option is unknown or malformed."""
    parser = harness_parser(program)
    parser.read_before = read_before
    return HarnessOptions.of(parser.parse_args(arguments), parser)


def harness_parser(program: str = "harness.py") -> Parser:
    """Return the parser of harness.py's options; flag names are AI-PEP's where it has them."""
    parser = Parser(
        prog=program,
        description="Measure two builds of a framework against each other on the cases of a spec; or one build alone "
        "with --single, or with another option that only such a run has. A build that is not given is the one that is "
        "configured, or else the framework's default.",
        epilog="Exit codes: 0 done, no regression; 1 a regression, or a case that fails on the treatment alone; "
        "2 wrong usage or input; 3 not completed, or a regression or all verdicts held back as the host was disturbed.",
    )
    add = parser.options("what is measured")
    add(
        "-b --benchmark_file SPEC",
        "the spec, a file that lists operators and their inputs: a path, or the name of one that comes with "
        f"opduel (conv, smoke, operators/unary; {command_name('list')} shows all); not needed with --operators, "
        "--category, --inputs, --network or --int64_tensor; with --suite a regular expression, as --bench",
    )
    add(
        "--control BUILD",
        "the build to compare with: a release (PACKAGE==VERSION), the folder of a Python environment, or a Python "
        "interpreter; for any package also a commit (in a checkout a branch, tag, HEAD~3, or . for the work tree; "
        "elsewhere 'NAME @ git+URL@REF'), or requirements, with spaces between, or a file of them (.txt)",
    )
    add("--treatment BUILD", "the build under test, in the same forms as --control")
    add(
        "--info JSON",
        "both builds in AI-PEP's format, instead of --control and --treatment: JSON, or the path of a JSON file",
    )
    add(
        "--statement CODE",
        "measure a line of Python, as timeit does; needs no spec; names such as np or a module's own are imported; "
        "repeatable",
        action="append",
    )
    add("-s --setup CODE", "Python code that each process runs once before the statements that it measures")
    _add_picking(add)
    _add_suite_options(add)
    add(
        "--metric METRICS",
        "one or more, separated by commas: time, instructions (under valgrind), memory, process_memory, error (do "
        "both builds compute the same?); overrides the spec; repeatable",
        type=types.metrics,
        action="append",
    )
    add(
        "--roofline",
        "measure the host's roofline first, and show how close to it each case comes (where its work is known)",
    )
    add("--framework NAME", "end with an error unless the spec is for this framework; or one of AI-PEP's, for programs")
    add(
        "-p --platform --platforms NAME",
        "platform name to store in the report (default: host); with --fleet, several separated by commas: tags, on the "
        "hosts of each of which all cases are measured",
        type=host_platform,
        default="host",
    )
    add("--exec_dir DIR", "the folder in which builds are kept (default: in the user's cache folder)", type=types.path)
    add(
        "--allow_sdist",
        "requirements and what a package's commits need may be built from source distributions (default: wheels only)",
    )
    add(
        "--model_cache DIR",
        "the folder in which files of networks are kept (default: in the user's cache folder)",
        type=types.path,
    )
    add("--breakdown", "show the time of each case by operator (default: for networks only, when they changed)")
    add(
        "--explain",
        "look for the cause of changed cases after measuring: of those that a second measurement, as by --verify, "
        "confirmed (confirmed, the default), of all, or of none",
        choices=("confirmed", "all", "none"),
        default="confirmed",
    )
    add(
        "--profile_output DIR",
        "after measuring, write the framework's profile of every case to this folder (trace, table, output)",
        type=types.path,
    )
    add(
        "--env NAME=VALUE",
        "a variable for the workers of both sides, such as DNNL_VERBOSE=1; or several; repeatable",
        type=types.variable,
        nargs="+",
        action="extend",
    )
    _add_single_options(parser.options("one build alone"))
    how = parser.options("how it is decided")
    how(
        "--threshold SHARE",
        "smallest change that matters, where the spec has none (time: 2%%, instructions: 0.5%%); for one metric "
        "alone METRIC=SHARE; repeatable",
        type=types.threshold,
        action="append",
    )
    how(
        "--alpha P",
        "false discovery rate of the run (default: 0.05)",
        type=types.probability,
        default=HarnessOptions.alpha,
    )
    how(
        "--time_budget SECONDS",
        "measure for at most this long, with the largest suspected changes first; cases that are still open are "
        "reported as inconclusive (default: no limit)",
        type=types.seconds,
    )
    how(
        "--round_log FILE",
        "save every round to FILE; repeating the same command resumes the run from there, even after a crash",
        type=types.path,
    )
    how(
        "--prior_runs PLACE",
        "plan by earlier runs on this host: a folder of reports, or the address of a results server "
        "(http://host:port); the run says how long it is likely to take, and a short time budget is spent on cases "
        "that can be settled; no verdict depends on it",
    )
    how(
        "--max_rounds N",
        "the most rounds for a case; a round is a fresh pair of processes "
        f"(default: {USUAL_ROUNDS}, and more with a threshold of a noisy metric below "
        f"{100 * SMALL_THRESHOLD:g}%%: {rounds_at(0.0025)} with 0.25%%, {rounds_at(0.001)} with 0.1%%)",
        type=types.rounds,
    )
    how(
        "--seed N",
        "seed of the random inputs and of the order of measuring (default: drawn at random, and kept in the report)",
        type=types.seed,
    )
    how("--threads N", "compute threads of each measuring process (default: 1)", type=types.positive, default=1)
    how(
        "--timeout SECONDS",
        "longest time for one step of a case, such as its preparation; overrides the spec (default: 60, and of a time "
        "budget no more than a tenth, or 10)",
        type=types.seconds,
    )
    how(
        "--inject SHARE",
        "self-test: slow every second case down on the treatment by this share, and report whether that was found",
        type=types.share,
        default=0.0,
    )
    validity = parser.options("how far it is trusted")
    validity(
        "--sentinels N",
        "how many cases are also measured with the control on both sides, to see whether the host invents "
        "differences; 0 for none (default: one in ten, 1 to 4)",
        type=types.count,
    )
    validity(
        "--busy_host",
        "when other load or the A/A checks show that the run was disturbed: measure on and withhold the verdicts that "
        "its rounds and these checks don't support (hold, the default), or show all with a warning (report)",
        choices=("hold", "report"),
        default="hold",
    )
    validity("--verify", "measure the cases that changed again, and report only the changes that are confirmed")
    validity(
        "--verify_after SECONDS", "with --verify: wait this long before measuring again (default: 0)", type=types.pause
    )
    add_fleet_options(parser)
    add_reporter_options(parser)
    add_ai_pep_options(parser)
    record = parser.options("kept with the report")
    record("--user_identifier TEXT", "any text that helps to find the report later")
    record(
        "--run_type",
        "why this run is made (default: benchmark; with --verify, verify)",
        choices=("benchmark", "verify", "regress"),
    )
    return parser


def _add_picking(add: AddOption) -> None:
    """Which cases of the spec, and what takes the place of their settings and inputs."""
    add("--operators PATTERN", "only cases whose id or operator matches; repeatable", action="append")
    add(
        "--category PATTERN",
        "with a spec that bundles others, such as all: only these of them (unary, nn_*); repeatable",
        action="append",
    )
    add(
        "--sample N|SHARE",
        "only a random sample of the cases that are left: so many, or a share such as 5%%; drawn by --seed",
        type=types.sample,
    )
    add(
        "--inputs JSON",
        "inputs for the operators named by --operators, or for --network, in place of a spec's: JSON, or @FILE; "
        "repeatable",
        action="append",
    )
    add("--network NETWORK", f"measure a whole network, in place of a spec: {NETWORK_FORMS}; goes with --inputs")
    add("--with_operators", "with --network: also measure each operator call that the network makes")
    add(
        "--fuzz N",
        "measure N random inputs for the chosen operators, in place of the spec's, and write a small spec of "
        "those on which the builds differ",
        type=types.positive,
    )
    add("--fuzz_spec FILE", "with --fuzz: where that spec is written (default: fuzz-SEED.json)", type=types.path)
    add("--dtype DTYPE", "data type of all arrays that don't set their own, such as float64; overrides the spec")
    add("--ctx CONTEXT", "where to run: cpu, gpu or gpu(1); overrides the spec", type=types.context)
    add(
        "--directions DIRECTIONS",
        "forward, backward, both, or several separated by commas; overrides the spec",
        type=types.directions,
    )
    add(
        "--input_sets N",
        "timed calls take N sets of random inputs in turn, so that the processor can't learn the branches of one; "
        f"overrides the spec (default: 1, at most {MAX_INPUT_SETS})",
        type=types.input_sets,
    )
    add(
        "--int64_tensor --int64-tensor",
        "on: only cases with tensors of more than 2^31-1 elements (-b int64 unless given); off: only others",
        type=str.lower,
        choices=("on", "off"),
    )


def _add_suite_options(add: AddOption) -> None:
    add(
        "--suite SUITE",
        "measure an existing suite, in place of a spec: PATH_OR_REPOSITORY[@COMMIT][:SUBFOLDER], the folder with "
        "asv.conf.json or that of the benchmarks; or files or a folder of tests for pytest-benchmark or CodSpeed; "
        "both builds execute the suite's code",
    )
    add(
        "--bench REGEX",
        "with --suite: only benchmarks whose name, with parameters, is this or matches; repeatable",
        action="append",
    )
    add(
        "--suite_packages REQUIREMENTS",
        "with --suite: what both builds get for it, in place of what its project lists, or none",
    )
    add(
        "--higher_is_better REGEX",
        "with --suite: of the benchmarks track_* that match, larger values are better; repeatable",
        action="append",
    )


def _add_single_options(single: AddOption) -> None:
    """What only a single-build run takes; None or False says that it was not given."""
    single(
        "--single", "measure one build alone, --treatment; so does every option below that is given without --control"
    )
    single("--rounds N", "fresh processes for each case (default: 5)", type=types.positive)
    single("-w --warmup N", "calls in each process before the timed ones (default: 2)", type=types.count)
    single(
        "-r --runs N",
        "timed calls in each process (default: as many as fit into 50 ms, 5 to 1000)",
        type=types.positive,
    )
    single(
        "--profiler",
        "how calls are timed: by a clock around each call (python, the default), or by the framework's own "
        "profiler (native)",
        choices=PROFILERS,
    )
    single(
        "-f --output_format --output-format",
        "how the result is written (default: a table; json for --output_file)",
        choices=("json", "csv", "md"),
    )
    single("-o --output_file --output-file FILE", "where it is written", type=types.path)
    single(
        "--baseline FILE",
        "an earlier result of one build (json) to compare with: lists the cases that are slower by more than "
        "--threshold (default: 10%%)",
        type=types.path,
    )
    single(
        "--golden FOLDER",
        "save the build's outputs in a new folder, without measuring; with --metric error, compare with the "
        "outputs saved there",
        type=types.path,
    )
