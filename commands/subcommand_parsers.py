"""The parsers of the subcommands of ``opduel`` that have few options of their own."""

import argparse
import re

from opduel.commands.fleet_options import fleet_parser as fleet_parser
from opduel.commands.option_types import path, report_file
from opduel.commands.options import NETWORK_FORMS, Parser
from opduel.frameworks import framework_names
from opduel.records.case import DTYPES
from opduel.records.measurement import SIDES
from opduel.reporters.formats import FORMATS, described
from opduel.reporters.options import OPTIONS as REPORTER_OPTIONS
from opduel.reporters.options import REMOTE_REPORTER
from opduel.support.command_names import command_name

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
MAX_SIZE = 2**31 - 1
_SHAPE = re.compile(rf"(?P<name>[^=]+)=(?P<sizes>[0-9]+(,[0-9]+)*)(:(?P<dtype>{'|'.join(DTYPES)}))?\Z")


def list_parser() -> Parser:
    """Return the parser of ``opduel list``, whose other options are those of ``opduel compare``."""
    epilog = "With options of opduel compare, such as -b SPEC: the cases that it would measure"
    parser = Parser(prog="opduel list", epilog=epilog)
    parser.options()("pattern PATTERN", "a part of an id, an operator or a spec's name, or a pattern", nargs="?")
    return parser


def run_parser() -> Parser:
    """Return the parser of the options that ``opduel run`` has beside those of ``opduel compare``, as in hyperfine."""
    parser = Parser(
        prog="opduel run",
        epilog='There is no shell: for pipes and the like, write sh -c "..." as the command.',
    )
    add = parser.options("around each run")
    add("-p --prepare COMMAND", "a command before each run, which isn't measured")
    add("-c --cleanup COMMAND", "a command after each run, which isn't measured")
    add("--input FILE", "the file on standard input (default: nothing)")
    add("-i --ignore-failure", "count runs with any exit code")
    add("-N", "no shell: there is none anyway")
    add = parser.options(
        "parameters: each value, or combination of values, is a case; {NAME} stands for it in commands"
    )
    numbers = ("NAME", "MIN", "MAX")
    add("-P --parameter-scan", "the numbers from MIN to MAX", action="store", nargs=3, metavar=numbers)
    add("-D --parameter-step-size STEP", "the step of these numbers (default: 1)")
    values = ("NAME", "VALUES")
    add(
        "-L --parameter-list",
        "these values, with commas between; repeatable. Of one command alone, the first value is compared with others",
        action="append",
        nargs=2,
        metavar=values,
        default=[],
    )
    add = parser.options("results")
    add("--export-json FILE", "write FILE in hyperfine's format")
    add("--export-csv FILE", "write FILE with a line a case")
    add("--export-markdown FILE", "write FILE as Markdown")
    return parser


def init_parser() -> Parser:
    parser = Parser(prog="opduel init", epilog="Nothing is overwritten.")
    add = parser.options()
    add(
        "folder FOLDER",
        "the checkout, or the package's folder in it (default: this folder)",
        type=path,
        nargs="?",
        default=path("."),
    )
    add(
        "--statement STATEMENT",
        "a line of Python to measure; repeatable, and its name may be left out",
        action="append",
        default=[],
    )
    add("-s --setup CODE", "Python code that each process runs once before the lines")
    add(
        "--ci",
        "whose workflow is written (default: what the checkout has, or its remote)",
        choices=("github", "gitlab", "none"),
    )
    add("--dry_run --dry-run", "show what would be written, and write nothing")
    return parser


def spec_from_parser() -> Parser:
    parser = Parser(
        prog=command_name("spec-from"),
        usage="%(prog)s NETWORK [OPTIONS]",
        description="Write a spec of the operator calls of a network.",
    )
    add = parser.options()
    add("spec_from NETWORK", NETWORK_FORMS)
    add(
        "--shape NAME=SIZES",
        "the shape of an input: data=1,3,224,224, or with a dtype data=1,3,224,224:float16; repeatable",
        type=shape,
        action="append",
        default=[],
    )
    add("--with_network", "also write a case of the whole network, with the checksums of its files")
    add("--build BUILD", "the build that infers shapes and types (default: the treatment)")
    add("--output FILE", "where the spec is written (default: standard output)", type=path)
    add("--framework", "the network's", choices=framework_names(), default=framework_names()[0])
    add("--exec_dir DIR", "the build cache (default: in the user's cache folder)", type=path)
    return parser


def shape(text: str) -> tuple[str, list[int], str]:
    """Return the name, sizes and dtype of an input: ``data=1,3,224,224``."""
    match = _SHAPE.match(text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=SIZES or NAME=SIZES:DTYPE, such as data=1,3,224,224")
    sizes = [int(size) for size in match["sizes"].split(",") if len(size) <= len(str(MAX_SIZE))]
    if len(sizes) <= match["sizes"].count(",") or not all(1 <= size <= MAX_SIZE for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r}: sizes are from 1 to {MAX_SIZE}")
    return match["name"], sizes, match["dtype"] or "float32"


def conformance_parser() -> Parser:
    parser = Parser(
        prog="opduel conformance",
        epilog="Exit codes: 0 it does; 1 it has problems, one a line; 2 wrong usage or input; 3 a build can't be "
        "started.",
    )
    add = parser.options()
    add("-b --benchmark_file SPEC", "a spec of the framework, whose cases run on both builds; of a suite, as --bench")
    add("--suite SUITE", "for a framework of suites: the suite whose benchmarks run, as opduel compare takes it")
    add(
        "--bench REGEX",
        "only benchmarks of the suite whose name, with parameters, matches; repeatable",
        action="append",
    )
    add("--control BUILD", "a build, as opduel compare takes it", required=True)
    add("--treatment BUILD", "another build, or the same (default: the control)")
    add("--operators PATTERN", "only these cases of the spec; repeatable", action="append", default=[])
    add("--check NAME", "only this check; repeatable (default: all)", action="append", type=str)
    add("--seed N", "what the inputs' values come from (default: 1)", type=int, default=1)
    add("--exec_dir DIR", "the build cache (default: in the user's cache folder)", type=path)
    return parser


def convert_parser() -> Parser:
    parser = Parser(prog="opduel convert")
    add = parser.options()
    add("report REPORT", "a report.json", type=report_file)
    add("--to", f"the format. {described()}", choices=list(FORMATS), required=True)
    add("--side", "for a format that holds one side", choices=SIDES)
    add(
        "--output FILE",
        "where it is written (default: standard output); {side} in the name stands for control and treatment, {run} "
        "for the run's id",
    )
    return parser


def explain_parser() -> Parser:
    parser = Parser(prog="opduel explain", epilog="The run must have looked for causes: --explain all")
    add = parser.options()
    add("report REPORT", "a report.json", type=report_file)
    add("case CASE", "the id of a case, or a part of it (default: one line for each case with a cause)", nargs="?")
    add("--json", "print what was found as JSON")
    return parser


def send_parser() -> Parser:
    parser = Parser(prog=command_name("send"))
    parser.options()("reports REPORT", "a report.json", type=path, nargs="+")
    return _with_server(parser)


def flush_parser() -> Parser:
    parser = Parser(prog=command_name("flush"))
    add = parser.options()
    add("--retry_refused", "also send reports that a server refused")
    add("--give_up NUMBER", "remove this entry without sending it; repeatable", type=int, action="append", default=[])
    add("--work_dir DIR", "show what waits in the journal of a driver, and send nothing", type=str)
    return _with_server(parser)


def _with_server(parser: Parser) -> Parser:
    """Return the parser with the options of the remote reporter."""
    group = parser.add_argument_group("server")
    for option in REPORTER_OPTIONS:
        if option.reporter == REMOTE_REPORTER:
            option.add_to(group)
    return parser


def python_parser() -> Parser:
    parser = Parser(prog="opduel python")
    add = parser.options()
    add("--framework", "whose build", choices=framework_names(), default=framework_names()[0])
    add("build BUILD", "a release, an environment or a Python interpreter")
    add("arguments ...", "its arguments: a script, or -c CODE", nargs=argparse.REMAINDER, default=[])
    return parser


def completion_parser() -> Parser:
    parser = Parser(
        prog="opduel completion",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the epilog has lines
        epilog="bash: opduel completion bash > ~/.local/share/bash-completion/completions/opduel\n"
        "fish: opduel completion fish > ~/.config/fish/completions/opduel.fish\n"
        "zsh:  opduel completion zsh > FOLDER/_opduel   (a folder of $fpath)",
    )
    parser.options()("shell", "your shell", choices=SHELLS)
    return parser
