"""How to measure one case of a report again: the command, made of what the report says of its run."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.records import Build, Commit, Comparison, Report, RunConfiguration
from opduel.reporters.text import printable

# Options of a run that hold for each of its cases, too; the others chose cases, bounded the run or reported it.
_OF_A_CASE = (
    *("category", "ctx", "dtype", "framework", "int64_tensor", "timeout", "model_cache", "root_model_dir"),
    *("shared_libs", "threshold", "alpha", "max_rounds", "threads", "wipe_cache", "roofline", "breakdown"),
    *("input_sets", "with_operators", "allow_sdist", "command_args", "string_map", "higher_is_better"),
    "suite_packages",
)
_OF_INPUTS = ("directions", "metric")
_OF_A_NETWORK = ("network", "inputs")
_OF_THE_DRIVER = ("cmake_args", "with_packages", "frameworks_dir", "remote_repository", "repo_dir", "build_program")
_ROOT = Path(__file__).resolve().parent.parent  # a checkout has its scripts there
_SPECIFICATIONS = re.compile(r"(?:.*/)?specifications/(.+)\.(?:json|ya?ml)")


@dataclass(frozen=True)
class Reproduction:
    """The commands that measure a case of one report again are a beginning for all of them, and an end for each case.

    ``here`` measures the same builds, where they still are; ``anywhere`` builds their commits, empty unless both sides
    have one. All are quoted as for a POSIX shell, on one line, and hold nothing that a terminal would obey.
    """

    here: str
    anywhere: str
    of: Callable[[Comparison], str]  # what follows either for this case


def reproduction(report: Report) -> Reproduction:
    """Return how cases of ``report`` are measured again."""
    configuration = report.configuration
    own_inputs = bool(configuration.inputs or configuration.fuzz) and not configuration.network
    names = (*_OF_A_CASE, *(() if own_inputs else _OF_INPUTS), *(_OF_A_NETWORK if configuration.network else ()))
    drawn = report.run.seed if report.run.spec_seed is None else report.run.spec_seed
    seed = [] if drawn is None else ["--seed", str(drawn)]
    common = [*_spec(report), *configuration.words(names), *_variables(report), *seed]
    golden = configuration.golden  # outputs that were kept stood in for the control
    control = ["--golden", str(golden)] if golden else ["--control", _name(report.control)]
    sides = [*control, "--treatment", _name(report.treatment)]
    ambiguous, cases = _ambiguous(report), {case.id: case for case in report.cases}

    def of(comparison: Comparison) -> str:
        case, name = cases.get(comparison.case), comparison.any_kind
        if case is not None and "statement" in case.inputs:
            setup = ["--setup", case.inputs["setup"]] if case.inputs.get("setup") else []
            return _joined([*setup, "--statement", case.inputs["statement"], "--metric", case.metric])
        if own_inputs and case is not None and not case.files:
            direction = ["--directions", case.direction] if case.direction else []
            own = [*direction, "--metric", case.metric]
            return _joined(["--operators", case.operator, "--inputs", json.dumps(case.inputs), *own])
        return _joined(["--operators", _exactly(name) if name in ambiguous else name])

    here = _joined([*program("harness.py", "compare", configuration), *sides, *common])
    return Reproduction(here, "" if golden else _of_commits(report, common), of)


def program(
    script: str, subcommand: str, configuration: RunConfiguration | None = None, root: Path = _ROOT
) -> list[str]:
    """Return how a command is started: by a script of the checkout at ``root``; where that is none, or the run of
    ``configuration`` was started by it, by the command ``opduel``."""
    installed = configuration is not None and configuration.program == "opduel"
    return ["opduel", subcommand] if installed or not (root / script).is_file() else ["python3", script]


def _joined(words: Sequence[str]) -> str:
    return printable(shlex.join(words))


def _spec(report: Report) -> list[str]:
    """Return ``-b`` and the spec (one of our own by its name, any other by its path), or ``--suite`` and the suite,
    at the commit that was run; empty if there was neither."""
    if suite := report.run.suite:
        return ["--suite", suite.pinned or suite.requested]
    path = report.run.spec_path
    if not path:
        return []
    ours = _SPECIFICATIONS.fullmatch(path)
    return ["-b", ours[1] if ours else path]


def _variables(report: Report) -> list[str]:
    """Return ``--env`` with the user's variables; values that may be secret are not in the report."""
    values = report.run.environment
    return [word for name in report.configuration.env if name in values for word in ("--env", f"{name}={values[name]}")]


def _name(build: Build) -> str:
    """Return what ``--control`` takes: a release by its name, any other build by its program or interpreter."""
    return build.requested if build.strategy == "release" else build.executable


def _of_commits(report: Report, common: Sequence[str]) -> str:
    control, treatment = report.control.commit, report.treatment.commit
    if control is None or treatment is None:
        return ""
    commits = ["--base_commit", control.id, "--exact_base", "--commit", treatment.id]
    configuration, strategy = report.configuration, report.treatment.strategy
    if named := [build for build in (configuration.control, configuration.treatment) if build]:
        if len(named) < 2 or any(build.startswith((".", "~", "/")) for build in named):
            return ""  # a work tree is no longer what it was
        words = [_at(build, commit) for build, commit in zip(named, (control, treatment), strict=True)]
        return _joined([*program("harness.py", "compare", configuration), *words, *common])
    build = ["--build", strategy] if strategy in ("overlay", "source") else []
    own = configuration.platform != RunConfiguration.platform and len(configuration.platforms) == 1
    platform = ["--platforms", configuration.platform] if own else []  # several share the usual builds
    repository = [*configuration.words(_OF_THE_DRIVER), *platform]
    return _joined(
        [*program("repo_driver.py", "drive", configuration), "--ab_testing", *commits, *build, *repository, *common]
    )


def _at(build: str, commit: Commit) -> str:
    """Return a build that was named by a commit, with the commit's id as the name; an address as it was given."""
    return build if "git+" in build else " ".join([commit.id, *build.split()[1:]])


def _ambiguous(report: Report) -> frozenset[str]:
    """Return the cases whose ids are operators' names, too, so that they might select further cases of these."""
    operators = {comparison.any_kind: comparison.operator for comparison in report.comparisons}
    configuration, run = report.configuration, report.run
    chosen = (configuration.operators, configuration.sample, configuration.bench, configuration.regressed_types)
    # There may be more cases than the report's.
    is_left_out = run.left_out is not None and bool(run.left_out.cases)
    narrowed = any(chosen) or is_left_out or bool(run.skipped or (run.suite and configuration.benchmark_file))
    counts = Counter(operators.values())
    return frozenset(case for case in operators if counts[case] > 1 or (narrowed and case == operators[case]))


def _exactly(case: str) -> str:
    """Return a glob that matches this id alone."""
    escaped = re.sub(r"([*?[])", r"[\1]", case)
    return escaped if escaped != case else re.sub(r"(\w)", r"[\1]", case, count=1)
