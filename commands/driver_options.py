"""repo_driver.py's own options; whatever else it is given must be harness.py's."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from opduel.commands.ai_pep import host_platform, repository_kind
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.commands.option_types import cache_size, gibibytes, path, pause, positive, seconds
from opduel.commands.options import Parser, read_options
from opduel.driver.commit_file import PLACEHOLDER
from opduel.records import UsageError
from opduel.support.command_names import command_name

GIB = 2**30
USUAL_PLATFORM = "host"

EPILOG = """Every option of {compare} works here, too; one of them (such as -b) must say what to measure.
Exit codes: 0 done, no regression; 1 a regression, or a case that fails on the treatment alone; 2 wrong usage or input;
3 not completed: a build failed, the remote can't be reached, or verdicts are held back."""


@dataclass(frozen=True)
class DriverOptions:
    """The driver's own, and those for the harness. ``base_why``: why the base commit is that one, if that is known."""

    own: CommitOptions
    harness: HarnessOptions
    base_why: str = ""


def parse_driver_options(arguments: Sequence[str], program: str = "repo_driver.py") -> DriverOptions:
    """Both sets of options. UsageError: one is unknown, malformed, or can't be had together with another."""
    parser = driver_parser(program)
    parsed, remaining = parser.parse_known_args(arguments)
    own = CommitOptions.of(parsed)
    cache = [f"--exec_dir={own.exec_dir}"] if own.exec_dir else []
    harness = read_options([*remaining, "-p", own.platforms, *cache], program, parser._option_string_actions)
    options = DriverOptions(own, harness)
    check_driver_options(options)
    return options


def check_driver_options(options: DriverOptions) -> None:
    """Raise UsageError if options can't be had together."""
    own = options.own
    refuse_options(options.harness, "commits", "two builds", "several runs")
    refuse_options(options.harness, "statements" if options.harness.statement else "no statements")
    if own.local is not None:
        _check_local(own)
    if own.repo == "hg" and (own.repo_dir is not None or own.local is not None):
        option = "repo_dir" if own.repo_dir is not None else "local"
        raise UsageError(f"--{option}: works with git: with --repo hg, name the repository with --remote_repository")
    bisected = [name for name in ("bisect_releases", "packages") if getattr(own, name)]
    if bisected and (len(bisected) == 2 or own.commit or own.base_commit or own.interval is not None):
        measured = bisected[0].removeprefix("bisect_")
        more = ", --packages" if len(bisected) == 2 else ""
        raise UsageError(
            f"--{bisected[0]}: measures {measured}, not commits: leave out --commit, --base_commit{more} and --interval"
        )
    if not own.ab_testing and not bisected and own.local is None:
        compare = command_name("compare")
        raise UsageError(f"add --ab_testing: a commit is measured against another one ({compare} measures two builds)")
    _check_branches(own)
    if own.all_cases and not (own.local is not None or own.regression or bisected):
        raise UsageError("--all_cases: works with --local or --regression, which leave cases out; add one of them")
    if own.exact_base and not own.base_commit:
        raise UsageError("--exact_base: add --base_commit, or leave it out")
    if own.improved and not (own.regression or bisected):
        raise UsageError("--improved: works only with --regression; add it")
    try:
        shlex.split(own.cmake_args)
    except ValueError as error:
        raise UsageError(f"--cmake_args {own.cmake_args}: {error}: quote it as for a shell") from None
    if own.bisect_releases and len(own.bisect_releases.split(",")) < 2:
        raise UsageError("--bisect_releases: give two or more releases, the oldest first, separated by commas")


def branch_names(text: str | None) -> tuple[str, ...]:
    """The branches of ``--branch``; none for the remote's default branch."""
    return () if text is None else tuple(name.strip() for name in text.split(","))


def _check_branches(own: CommitOptions) -> None:
    """Raise UsageError if several branches would get in each other's way."""
    names = branch_names(own.branch)
    if "" in names or len(set(names)) < len(names):
        raise UsageError(f"--branch {own.branch}: give different names, separated by commas")
    if len(names) < 2:
        return
    if own.commit is not None or own.local is not None:
        option = "local" if own.commit is None else "commit"
        raise UsageError(f"--{option}: works with one branch: give one with --branch, not {len(names)}")
    if own.commit_file is not None and PLACEHOLDER not in str(own.commit_file):
        path = own.commit_file.with_name(f"{own.commit_file.stem}-{PLACEHOLDER}{own.commit_file.suffix}")
        raise UsageError(
            f"--commit_file {own.commit_file}: branches can't share it: put the branch into the name, such as {path}"
        )


def _check_local(own: CommitOptions) -> None:
    """Raise UsageError if anything is asked for that goes with commits of a remote."""
    for name in ("repo_dir", "commit", "commit_file", "interval", "bisect_releases", "packages", "status_file", "step"):
        if getattr(own, name) != getattr(CommitOptions, name):
            raise UsageError(f"--{name}: --local measures the checkout as it is, once: leave one of the two out")


def driver_parser(program: str = "repo_driver.py") -> Parser:
    """Return the parser of the driver's own options; flag names are AI-PEP's where it has them."""
    parser = Parser(
        prog=program,
        usage=f"%(prog)s --ab_testing -b SPEC [options of its own and of {command_name('compare')}]\n"
        "       %(prog)s --local [PATH]",
        description="Pull a framework's repository, build a control and a treatment commit, and measure them against "
        "each other, once or continuously.",
        epilog=EPILOG.format(compare=command_name("compare")),
        add_help=False,
    )
    parser.options()("-h --help", "show this help message and exit", action="help")
    _add_commits(parser)
    _add_builds(parser)
    _add_running(parser)
    return parser


def _add_commits(parser: Parser) -> None:
    add = parser.options("which commits")
    add("--ab_testing", "measure each commit against a control")
    add(
        "--local PATH",
        "measure your own branch: the checkout at PATH (default: the current folder) as it is, with uncommitted "
        "changes, against where it left the remote's branch; only the cases that the difference can reach",
        type=path,
        nargs="?",
        const=path("."),
    )
    add("--all_cases", "with --local, or in a search: measure the cases that the difference can't reach, too")
    add("--repo_dir DIR", "your own clone; it is only read, never changed", type=path)
    add(
        "--remote_repository REMOTE",
        "the repository to fetch from, a URL or path (default: the framework's own); with --repo_dir, the name of "
        "one of its remotes (default: origin)",
    )
    add(
        "--repo KIND",
        "the kind of repository: git, or hg for Mercurial (default: git)",
        type=repository_kind,
        default="git",
    )
    add("--branch NAMES", "the remote's branches to measure, separated by commas (default: its default branch)")
    add("--commit COMMIT", "the treatment: commit, tag or branch; with --interval, where to start")
    add(
        "--base_commit COMMIT",
        "the control, unless the first commit of the treatment's week (UTC) is later (default: that commit)",
    )
    add("--exact_base", "take --base_commit as the control in any case")
    add("--step N", "measure only every Nth commit", type=positive, default=1)
    add(
        "--commit_file FILE",
        "the file that remembers the last commit measured; the next start continues after it",
        type=path,
    )
    add(
        "--bisect_releases A,B,...",
        "find the first of these releases, oldest first, that regressed; needs no repository",
    )
    add(
        "--packages",
        "find which of the packages in which two environments differ made the difference, and in which release; each "
        "is a folder with bin/python, an interpreter, a file of requirements (.txt), or requirements in quotes",
        action="store",
        nargs=2,
        metavar=("OLD", "NEW"),
    )


def _add_builds(parser: Parser) -> None:
    builds = parser.options("how they are built")
    builds(
        "--build",
        "how commits are built: release, overlay (their Python code over a release's library) or source; auto "
        "(the default) chooses",
        choices=("auto", "release", "overlay", "source"),
        default="auto",
    )
    builds(
        "--platforms -p --platform NAME",
        "the platform whose build script is used (default: host); with --fleet, several separated by commas: tags, on "
        "the hosts of each of which all cases are measured",
        type=host_platform,
        default=USUAL_PLATFORM,
    )
    builds(
        "--frameworks_dir DIR",
        "the folder of the frameworks' build data and scripts (default: specifications/frameworks)",
        type=path,
    )
    builds(
        "--cmake_args ARGS",
        "further arguments of CMake, as in a shell; for a Python package settings of its build backend, KEY=VALUE",
        default="",
    )
    builds(
        "--with_packages REQUIREMENTS",
        "what commits of a Python package get besides what they need, with spaces between, such as 'python==3.12 "
        "scipy==1.15.3'; the same on both sides",
        default="",
    )
    builds("--exec_dir DIR", "the folder in which builds are kept (default: in the user's cache folder)", type=path)
    builds(
        "--build_timeout SECONDS",
        "longest time for one compile (default: 14400, 4 h)",
        type=seconds,
        default=4 * 3600.0,
    )
    builds("--min_free GIB", "disk space that must stay free (default: 5)", type=gibibytes, default=5.0)
    builds("--cache_size GIB", "largest size of the build cache (default: 50)", type=cache_size, default=50.0)
    builds("--same_host", "never build while measuring (default: build ahead on spare processors, if there are any)")


def _add_running(parser: Parser) -> None:
    running = parser.options("how it runs")
    running("--regression", "measure regressions again, and bisect what is confirmed to the commit that caused it")
    running("--improved", "with --regression: do the same for improvements")
    running("--interval SECONDS", "keep running, and look for new commits this often", type=pause)
    running("--status_file FILE", "write 0 into this file to stop the driver before the next commit", type=path)
    running(
        "--work_dir DIR",
        "where the journal, the repository and the logs are kept (default: the user's state folder)",
        type=path,
    )
    running("--again", "measure commits again that were already measured")
    running(
        "--retry_after SECONDS",
        "how long to wait before a run that can't be trusted is repeated",
        type=pause,
        default=120.0,
    )
    running("--dry_run", "fetch, and print what would be measured, without measuring")
