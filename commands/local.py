"""repo_driver.py --local: a contributor's branch, or work tree, against where it left the remote's branch."""

import dataclasses
import hashlib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import platformdirs

from opduel.commands.driver_options import DriverOptions
from opduel.commands.entry import log
from opduel.commands.harness_options import CommitOptions
from opduel.commands.option_rules import EVERYTHING
from opduel.commands.session import Session
from opduel.driver.builds.framework_data import load_repository_data
from opduel.driver.change_impact import Impact, impact_of, load_impact_rules
from opduel.driver.git.local import Snapshot, base_of, changed_files, snapshot, top_of
from opduel.driver.git.repository import Repository, open_repository
from opduel.frameworks import Framework
from opduel.harness.specs import find_spec, load_spec
from opduel.records import Case, Commit, UsageError
from opduel.support.text import counted

CASE_S = 1.6  # seconds a case in an A/B of two equal builds on a quiet machine: docs/explanation/performance.md
SHOWN = 5  # names in a line
# Options by which the user says which cases are measured: they are not narrowed down further.
_CHOSEN = ("operators", "category", "inputs", "suite")


def begin_local(options: DriverOptions) -> DriverOptions:
    """Return the options with what follows from the checkout alone, and with the usual spec. UsageError: there is no
    checkout."""
    own, harness = options.own, options.harness
    assert own.local is not None
    own = dataclasses.replace(own, repo_dir=top_of(own.local))
    if not any(map(harness.is_given, ("benchmark_file", *_CHOSEN, "int64_tensor"))):
        harness = dataclasses.replace(harness, benchmark_file=EVERYTHING)
    return dataclasses.replace(options, own=own, harness=harness)


def local_work_directory(own: CommitOptions, framework: Framework) -> Path:
    """The usual work directory: one for each checkout, so that it is in no other's way."""
    assert own.repo_dir is not None
    name = hashlib.sha256(str(own.repo_dir.resolve()).encode()).hexdigest()[:12]
    return platformdirs.user_state_path("opduel") / "local" / framework.name / name


def plan_local(options: DriverOptions, session: Session, work: Path) -> tuple[DriverOptions, Session] | None:
    """The options with both commits, and the session with the cases that their difference can touch; says what was
    chosen and why. None: nothing can differ. UsageError: nothing is changed, no base can be found, or none of the cases
    is touched."""
    own = options.own
    assert own.repo_dir is not None
    repository = open_repository(work, None, own.repo_dir)
    work_tree = snapshot(repository)
    _check_framework(repository, work_tree.head, session.framework, own.repo_dir)
    base, why = _base(own, repository, work_tree)
    _log_work_tree(work_tree)
    if base.id == work_tree.commit.id:
        raise UsageError(
            f"--local {own.repo_dir}: nothing to measure: {work_tree.head.short} is {why}, and no file is changed: "
            "commit or change something, or name another commit with --base_commit"
        )
    paths = changed_files(repository.git, base, work_tree.commit)
    cases = _narrow_cases(options, session, paths)
    if cases is None:
        return None
    own = dataclasses.replace(
        own, commit=work_tree.commit.id, branch=work_tree.commit.id, base_commit=base.id, exact_base=True
    )
    choice = dataclasses.replace(session.choice, cases=cases)
    return dataclasses.replace(options, own=own, base_why=why), dataclasses.replace(session, cases=cases, choice=choice)


def _check_framework(repository: Repository, head: Commit, framework: Framework, folder: Path) -> None:
    """Raise UsageError unless it is a checkout of the framework; any is, where any package can be measured."""
    if not framework.builds.has_repository:
        return
    package = load_repository_data(framework).package
    try:
        repository.tree(head, package)
    except UsageError:
        raise UsageError(
            f"--local {folder}: is not a checkout of {framework.name}: it has no {package}: give the path of one"
        ) from None


def _base(own: CommitOptions, repository: Repository, work_tree: Snapshot) -> tuple[Commit, str]:
    """The control, and why it is that one; UsageError if it can't be found."""
    if own.base_commit is not None:
        try:
            return repository.resolve(own.base_commit), f"the base commit {own.base_commit}, as asked for"
        except UsageError as error:
            raise UsageError(f"--base_commit {error}") from None
    base = base_of(repository, work_tree.head, own.remote_repository, own.branch)
    if base.nearer is not None:
        log.warning(
            "HEAD is %d commits from %s, and %d from %s: if your change is for that branch, add --branch %s",
            *(base.ahead, base.name, base.nearer[1], base.nearer[0], base.nearer[0]),
        )
    return base.commit, f"where {work_tree.branch or work_tree.head.short} left {base.name}"


def _log_work_tree(work_tree: Snapshot) -> None:
    """What of the work tree is measured, and what isn't."""
    if work_tree.changed:
        log.info("measuring the work tree with its uncommitted changes in %s", _list_names(work_tree.changed, "file"))
    if work_tree.left_out:
        log.info("not measured, because git doesn't track the folder: %s", _list_names(work_tree.left_out, "file"))
    if work_tree.within:
        log.warning("not measured: uncommitted changes within the submodules %s", ", ".join(work_tree.within))


def _narrow_cases(options: DriverOptions, session: Session, paths: Sequence[str]) -> Sequence[Case] | None:
    """The cases that a change of these files can touch, with the reasons; None when it can touch none. UsageError:
    there are such cases, but not among those that were asked for."""
    cases, name = session.cases, session.choice.file_name
    if any(getattr(options.harness, name) for name in _CHOSEN):
        cost = _estimate_duration(len(cases)) if cases else "the suite's cases"  # which are known when there are builds
        log.info("%s changed; %s, as asked for", _list_names(paths, "file"), cost)
        return cases
    touched = impact_of(paths, load_impact_rules(session.framework))
    for words, files in touched.reasons:
        log.info("%s can touch %s", _list_names(files, "file"), words)
    if touched.everything:
        log.info("%s can touch every case: all of %s", _list_names(touched.everything, "file"), name)
        log.info("%s", _estimate_duration(len(cases)))
        return cases
    if touched.nothing:
        log.info("nothing to measure: the changes can't touch any case (--operators '*' measures them anyway)")
        return None
    touched_cases = [case for case in cases if is_affected(case, touched, operators_of(touched))]
    if not touched_cases:
        raise UsageError(
            f"the changes can't touch any of the {len(cases)} cases of {name}: leave -b out to choose from "
            f"-b {EVERYTHING}, or add --operators '*' to measure them anyway"
        )
    log.info("%d of %d cases of %s are touched", len(touched_cases), len(cases), name)
    log.info("%s", _estimate_duration(len(touched_cases)))
    return touched_cases


def is_affected(case: Case, touched: Impact, of_categories: frozenset[str]) -> bool:
    """Whether a change can touch the case; ``of_categories``: the operators of the categories that it can touch."""
    return case.operator in of_categories or any(fnmatchcase(case.operator, pattern) for pattern in touched.operators)


def operators_of(touched: Impact) -> frozenset[str]:
    """All operators of the categories that a change can touch."""
    if not touched.categories:
        return frozenset()
    spec = load_spec(find_spec(EVERYTHING), touched.categories)
    return frozenset(test.operator for test in spec.tests)


def _estimate_duration(cases: int) -> str:
    """How long it takes, about."""
    minutes = cases * CASE_S / 60
    if minutes < 5:
        return counted(cases, "case")
    return (
        f"{cases} cases, about {minutes:.0f} min on a quiet machine (-b smoke or --time_budget SECONDS make it shorter)"
    )


def _list_names(names: Sequence[str], noun: str) -> str:
    """``3 files (a, b, c)``."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{len(names)} {noun}{'' if len(names) == 1 else 's'} ({', '.join(names[:SHOWN])}{more})"
