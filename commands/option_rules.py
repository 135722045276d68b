"""Which options don't go with what a command does: one table, by what is done, with the reason and the fix.

All that can be seen of the options themselves is checked here, before what measures is imported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.commands.fleet_options import FLEET_OPTIONS
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.implied_framework import builds_of, spec_of_builds
from opduel.commands.project import OF_SUITE
from opduel.harness.specs import find_spec
from opduel.records import UsageError
from opduel.reporters.options import OPTION_BY_NAME
from opduel.support.command_names import command_name


@dataclass(frozen=True)
class Rule:
    """Options that are refused, and why. In the reason ``{compare}`` stands for the command that compares two builds,
    ``{alone}`` for what measures one."""

    options: tuple[str, ...]
    reason: str
    reporters: bool = False  # whether reporters' options are refused, too
    but: tuple[str, ...] = ()  # of the reporters' options


CALLS = ("warmup", "runs")  # opperf's options, in whose place an A/B plans by itself
SINGLE_ONLY = ("single", "rounds", "output_format", "output_file", "baseline", "profiler", "golden")
AB_ONLY = (
    *("info", "metric", "alpha", "max_rounds", "inject", "sentinels", "busy_host", "verify", "verify_after"),
    *("run_type", "regressed_types", "round_log", "prior_runs", "breakdown", "explain", "fuzz", "fuzz_spec"),
    *FLEET_OPTIONS,
)
# Of how times are measured, and how changes are decided.
_NO_GOLDEN = (
    *("threshold", "roofline", "wipe_cache", "alpha", "max_rounds", "inject", "sentinels", "busy_host"),
    *("verify", "verify_after", "round_log", "prior_runs", "breakdown", "explain"),
    *("fuzz", "fuzz_spec", "profile_output", *CALLS),
    *("rounds", "output_format", "output_file", "baseline", "profiler"),
)
_NO_SUITE = (
    *("category", "inputs", "network", "with_operators", "fuzz", "fuzz_spec", "dtype", "ctx", "directions"),
    *("input_sets", "int64_tensor", "program", "command_args", "string_map"),
)
_OF_DRIVER = (
    *("control", "treatment", "info", "run_type", "regressed_types", "shared_libs", "inject", "verify", "verify_after"),
)
_NO_STATEMENTS = ("benchmark_file", "suite", "operators", *_NO_SUITE)
EVERYTHING = "all"  # the spec where only operators or categories are named
LARGE_TENSORS = "int64"
EXAMPLE = "opduel compare numpy==1.26.4 numpy==2.2.6 'np.sort([3, 1])'"
_LEAVE_ONE = "leave one of the two options out"
RULES: Mapping[str, Sequence[Rule]] = {
    "two builds": (
        Rule(SINGLE_ONLY, "only applies to one build alone ({alone}): leave it out"),
        Rule(CALLS, "an A/B makes as many calls as it needs: leave it out, or measure one build alone ({alone})"),
    ),
    "several runs": (
        Rule(("round_log", "profile_output", "fuzz", "fuzz_spec"), "is for one run of {compare}: leave it out"),
    ),
    "one build": (
        Rule(("control", "info"), "--single, or an option of it, measures one build alone: " + _LEAVE_ONE),
        Rule(AB_ONLY, "belongs to an A/B, not to --single or an option of it: leave one out", reporters=True),
    ),
    "golden": (Rule(_NO_GOLDEN, "has no meaning with --golden: leave it out"),),
    "golden, written": (Rule((), "reports a comparison: add --metric error, or leave it out", reporters=True),),
    "a suite": (Rule(_NO_SUITE, "is not for a suite's benchmarks: leave it out"),),
    "statements": (Rule(_NO_STATEMENTS, "is not for --statement: leave one of the two out"),),
    "no statements": (Rule(("setup",), "belongs to statements: add --statement CODE, or leave it out"),),
    "no suite": (Rule(OF_SUITE, "is for a suite's benchmarks: add --suite, or leave it out"),),
    "fuzz": (
        Rule(("round_log", "inject", "verify", "network"), "can't be combined with --fuzz: leave one of the two out"),
    ),
    "no fuzz": (Rule(("fuzz_spec",), "add --fuzz, or leave it out"),),
    "a network": (
        Rule(("benchmark_file", "category", "int64_tensor"), "--network replaces a spec: leave one of the two out"),
    ),
    "no network": (Rule(("with_operators",), "add --network, or leave it out"),),
    "no verification": (Rule(("verify_after",), "works only with --verify: add that, or leave it out"),),
    "a fleet": (
        Rule(("golden",), "does not go with --fleet: outputs are compared with stored ones on one host: " + _LEAVE_ONE),
        Rule(("fuzz",), "does not go with --fleet: random inputs are compared and shrunk on one host: " + _LEAVE_ONE),
        Rule(("profile_output",), "does not go with --fleet: profiles lie on the hosts that make them: " + _LEAVE_ONE),
    ),
    "no fleet": (
        Rule(
            ("fleet_tag", "devices", "excluded_devices", "fleet_certificates", "across"),
            "chooses hosts of a fleet: add --fleet ADDRESS, or leave it out",
        ),
    ),
    "calibration": (
        Rule(
            ("info", "inject", "inputs", "metric", "network", "with_operators", "user_identifier"),
            "is set by --calibrate itself: leave it out",
        ),
        Rule(
            ("suite", *OF_SUITE),
            "is for a suite, which --calibrate can't measure: leave it out, and give a spec with -b",
        ),
        Rule(FLEET_OPTIONS, "is for other hosts, and --calibrate judges this one: leave it out"),
        Rule(  # reporters get no single run
            (),
            "can't be combined with --calibrate: leave it out",
            reporters=True,
            but=("local_reporter", "simple_local_reporter"),
        ),
    ),
    "commits": (Rule(_OF_DRIVER, "the driver chooses builds and kinds of runs itself: leave it out"),),
}


def refuse_options(options: HarnessOptions, *uses: str) -> None:
    """Raise UsageError, which names the option, if one is given that doesn't go with these uses of ``RULES``."""
    measure = command_name("measure")
    alone = "--single, without --control" if measure.endswith(".py") else measure
    for rule in (rule for use in uses for rule in RULES[use]):
        reporters = sorted(OPTION_BY_NAME.keys() - {*rule.but}) if rule.reporters else []
        reason = rule.reason.format(compare=command_name("compare"), alone=alone)
        options.refuse([*rule.options, *reporters], reason)


def check_options(options: HarnessOptions) -> None:
    """Raise UsageError unless these options of harness.py go together, and there is something to measure."""
    _check_suite(options)
    refuse_options(options, "statements" if options.statement else "no statements")
    if options.golden is not None:
        _check_golden(options)
    elif is_single(options):
        _check_single(options)
    else:
        refuse_options(options, "two builds", *(["no fuzz"] if options.fuzz is None else []))
    _check_verification(options)
    check_spec(options)


def is_single(options: HarnessOptions) -> bool:
    """Tell whether one build alone is measured: with ``--single``, or with an option that only such a run has and no
    control."""
    is_asked_for = any(map(options.is_given, (*SINGLE_ONLY, *CALLS)))
    return options.single or (is_asked_for and options.control is None and options.info is None)


def _check_golden(options: HarnessOptions) -> None:
    if not (options.treatment or options.single) or options.control is not None or options.info is not None:
        raise UsageError("--golden: measures one build: give it with --treatment, and leave --control and --info out")
    if options.metric not in ((), ("error",)):
        raise UsageError("--golden: compares outputs only: use --metric error, or measure in another run")
    refuse_options(options, "golden", *([] if options.metric else ["golden, written"]))


def _check_single(options: HarnessOptions) -> None:
    refuse_options(options, "one build")
    if options.platform in ("python", "native"):
        raise UsageError(f"-p {options.platform}: -p is --platform here: use --profiler {options.platform}")
    if options.wipe_cache and options.profiler == "native":
        raise UsageError("--wipe_cache: the framework's own profiler doesn't wait for it: use --profiler python")
    if options.threshold and options.baseline is None:
        raise UsageError("--threshold: one build alone is compared with nothing: add --baseline, or leave --single out")


def check_run(options: HarnessOptions) -> None:
    """Raise UsageError for options of a suite, or of a verification, without it, and for what contradicts others."""
    _check_suite(options)
    _check_verification(options)


def _check_suite(options: HarnessOptions) -> None:
    if options.suite is None:
        refuse_options(options, "no suite")
    elif options.golden is not None or is_single(options):
        raise UsageError("--suite: needs two builds: add --control, and leave out the options of a single build")


def _check_verification(options: HarnessOptions) -> None:
    if options.regressed_types and options.is_given("run_type") and options.run_type != "regress":
        raise UsageError(f"--regressed_types: belongs to --run_type regress, not {options.run_type}: leave one out")
    after, budget = options.verify_after, options.time_budget
    if not options.verify:
        refuse_options(options, "no verification")
    if after is not None and budget is not None and after >= budget:
        raise UsageError(f"--verify_after {after:g}: the time budget of {budget:g} s includes the wait: increase it")


def check_spec(options: HarnessOptions) -> None:
    """Raise UsageError if nothing says what is measured, or a spec that is named isn't there."""
    others = (options.suite, options.network, *options.statement)
    if not any(others) and (options.benchmark_file or not options.inputs):
        named_spec(options)


def named_spec(options: HarnessOptions) -> Path:
    """Return the file of the spec whose cases are chosen from. UsageError: none is named, or it isn't there."""
    name = options.benchmark_file
    if name is None:
        if options.int64_tensor == "on":
            name = LARGE_TENSORS
        elif options.operators or options.category:
            name = spec_of_builds(builds_of(options), options.operators) or EVERYTHING
        else:
            raise UsageError(
                f"nothing to measure: give builds and a line of Python ({EXAMPLE}), a suite with --suite, a spec with "
                f"-b/--benchmark_file, or choose from -b {EVERYTHING} with --operators or --category; see --help"
            )
    return find_spec(name)
