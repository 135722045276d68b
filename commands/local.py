"""opduel local: a work tree, uncommitted changes and all, against where it left the main branch."""

import dataclasses
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from opduel.commands.checkout import find_suite, package_of
from opduel.commands.driver_options import DriverOptions
from opduel.commands.entry import log
from opduel.commands.harness_options import CommitOptions
from opduel.commands.option_rules import EVERYTHING
from opduel.commands.project import SAYS_WHAT
from opduel.commands.session import Session
from opduel.driver.builds.framework_data import REPOSITORY_FILE, load_repository_data
from opduel.driver.change_impact import Impact, impact_of, load_impact_rules
from opduel.driver.git.local import Snapshot, base_of, changed_files, snapshot, top_of
from opduel.driver.git.repository import Repository, open_repository
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.frameworks.roles import PackageBuilds
from opduel.harness.specs import find_spec, load_spec
from opduel.records import Case, Commit, UsageError
from opduel.records.run_record import LeftOutRecord
from opduel.support.text import counted, listed

BUDGET_S = 180.0  # for measuring a package, unless the user says: both builds have to be made, too
# Options by which the user says which cases are measured: they are not narrowed down further.
_CHOSEN = ("operators", "category", "inputs", "suite", "statement")


def begin_local(options: DriverOptions) -> DriverOptions:
    """Return the options with what follows from the checkout alone. Unless they say what is measured that is its suite;
    in a checkout of a framework that has specs, the usual spec. UsageError: there is no checkout, or nothing to
    measure."""
    own, harness = options.own, options.harness
    assert own.local is not None
    folder, top = Path(os.path.abspath(own.local)), top_of(own.local)
    own = dataclasses.replace(own, local=folder, repo_dir=top)
    if not any(map(harness.is_given, SAYS_WHAT)):
        harness = dataclasses.replace(harness, **_usual_cases(folder, top))
    return with_budget(dataclasses.replace(options, own=own, harness=harness))


def with_budget(options: DriverOptions) -> DriverOptions:
    """Return the options with the usual time budget for a suite or lines of Python, unless they have one."""
    own, harness = options.own, options.harness
    if not (harness.suite or harness.statement) or harness.is_given("time_budget"):
        return options
    limited, more = "measuring", ""
    if own.regression:
        limited, more = "each comparison", ", and what earlier ones left of theirs"
    log.info("%s takes at most %.0f s%s: --time_budget SECONDS changes that", limited, BUDGET_S, more)
    return dataclasses.replace(options, harness=dataclasses.replace(harness, time_budget=BUDGET_S))


def _usual_cases(folder: Path, top: Path) -> dict[str, Any]:
    """Return the options that say what is measured where the user does not."""
    if _is_of_specs(top):
        return {"benchmark_file": EVERYTHING}
    package = package_of(folder, top)
    suite = find_suite(package.folder) or find_suite(top)
    if suite is None:
        raise UsageError(
            f"nothing to measure: {top} has no asv.conf.json, nor tests that use the fixture benchmark: name a suite "
            "with --suite, or give a line of Python, such as 'mypackage.f(x)' --setup 'import mypackage; x = 1'"
        )
    log.info("measuring the suite %s", suite.folder)
    return {"suite": str(suite.folder)}


def _is_of_specs(top: Path) -> bool:
    """Tell whether this is a checkout of a framework whose repository and cases opduel knows."""
    frameworks = [framework for name in framework_names() if (framework := get_framework(name)).builds.has_repository]
    with_repository = [framework for framework in frameworks if (framework.specifications / REPOSITORY_FILE).is_file()]
    return any((top / load_repository_data(framework).package).is_dir() for framework in with_repository)


def package_folder(own: CommitOptions, framework: Framework) -> str:
    """Return where the package is in the checkout, empty for its top. UsageError: it has none."""
    if own.local is None or own.repo_dir is None or not isinstance(framework.builds, PackageBuilds):
        return ""
    folder = package_of(own.local, own.repo_dir).folder
    return "" if folder == own.repo_dir else str(folder.relative_to(own.repo_dir))


def plan_local(
    options: DriverOptions, session: Session, work: Path, always: bool = False
) -> tuple[DriverOptions, Session] | None:
    """The options with both commits, and the session with the cases that their difference can touch; says what was
    chosen and why. None: nothing can differ, unless all cases are ``always`` measured. UsageError: no base can be
    found, or none of the cases is touched."""
    own = options.own
    assert own.repo_dir is not None
    repository = open_repository(work, None, own.repo_dir)
    work_tree = snapshot(repository)
    _check_framework(repository, work_tree.head, session.framework, own.repo_dir)
    base, why = _base(own, repository, work_tree)
    _log_work_tree(work_tree)
    if base.id == work_tree.commit.id and not always:
        log.info(
            "nothing to measure: no file is changed, and %s is %s; --base_commit HEAD~1 measures the last commit",
            work_tree.head.short,
            why,
        )
        return None
    paths = changed_files(repository.git, base, work_tree.commit)
    cases = session.cases if always or own.all_cases else _narrow_cases(options, session, paths)
    if cases is None:
        return None
    own = dataclasses.replace(
        own, commit=work_tree.commit.id, branch=work_tree.commit.id, base_commit=base.id, exact_base=True
    )
    choice = dataclasses.replace(session.choice, cases=cases)
    labels = dataclasses.replace(session.labels, left_out=_left_out(session.cases, cases, paths))
    session = dataclasses.replace(session, cases=cases, choice=choice, labels=labels)
    return dataclasses.replace(options, own=own, base_why=why), session


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
    if base.name == work_tree.branch and base.commit.id == work_tree.head.id:
        return base.commit, "the last commit"
    return base.commit, f"where {work_tree.branch or work_tree.head.short} left {base.name}"


def _log_work_tree(work_tree: Snapshot) -> None:
    """What of the work tree is measured, and what isn't."""
    if work_tree.changed:
        log.info("measuring the work tree with its uncommitted changes in %s", _list_names(work_tree.changed, "file"))
    if left_out := [path for path in work_tree.left_out if path[0] != "."]:  # caches and the like are not meant
        log.info("not built, unless you git add them: %s", _list_names(left_out, "new file"))
    if work_tree.within:
        log.warning("not measured: uncommitted changes within the submodules %s", ", ".join(work_tree.within))


def _narrow_cases(options: DriverOptions, session: Session, paths: Sequence[str]) -> Sequence[Case] | None:
    """The cases that a change of these files can touch, with the reasons; None when it can touch none. UsageError:
    there are such cases, but not among those that were asked for."""
    cases, name = session.cases, session.choice.file_name
    if any(getattr(options.harness, name) for name in _CHOSEN):
        cost = counted(len(cases), "case") if cases else "the suite's cases"  # which are known when there are builds
        log.info("%s changed; %s, as asked for", _list_names(paths, "file"), cost)
        return cases
    touched = impact_of(paths, load_impact_rules(session.framework))
    for words, files in touched.reasons:
        log.info("%s can touch %s", _list_names(files, "file"), words)
    if touched.everything:
        log.info("%s can touch every case: all of %s", _list_names(touched.everything, "file"), name)
        log.info("%s", counted(len(cases), "case"))
        return cases
    if touched.nothing:
        log.info("nothing to measure: the changes can't touch any case (--all_cases measures them all the same)")
        return None
    touched_cases = [case for case in cases if is_affected(case, touched, operators_of(touched))]
    if not touched_cases:
        raise UsageError(
            f"the changes can't touch any of the {len(cases)} cases of {name}: leave -b out to choose from "
            f"-b {EVERYTHING}, or add --all_cases to measure them all the same"
        )
    log.info("%d of %d cases of %s are touched", len(touched_cases), len(cases), name)
    log.info("%s", counted(len(touched_cases), "case"))
    return touched_cases


def _left_out(cases: Sequence[Case], touched_cases: Sequence[Case], paths: Sequence[str]) -> LeftOutRecord | None:
    """The record of the cases that a change of these files can't touch; None if there are none."""
    ids = {case.id for case in touched_cases}
    left_out = tuple(case.id for case in cases if case.id not in ids)
    return LeftOutRecord(cases=left_out, total=len(cases), changed=tuple(paths)) if left_out else None


def is_affected(case: Case, touched: Impact, of_categories: frozenset[str]) -> bool:
    """Whether a change can touch the case; ``of_categories``: the operators of the categories that it can touch."""
    return case.operator in of_categories or any(fnmatchcase(case.operator, pattern) for pattern in touched.operators)


def operators_of(touched: Impact) -> frozenset[str]:
    """All operators of the categories that a change can touch."""
    if not touched.categories:
        return frozenset()
    spec = load_spec(find_spec(EVERYTHING), touched.categories)
    return frozenset(test.operator for test in spec.tests)


def _list_names(names: Sequence[str], noun: str) -> str:
    """``3 files (a, b, c)``."""
    return f"{counted(len(names), noun)} ({listed(names)})"
