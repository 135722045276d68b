"""Commits that the name of a build means: main, HEAD~3, v1.2 and . in a checkout, and NAME @ git+ADDRESS@REF."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

import platformdirs
from packaging.utils import canonicalize_name

from opduel.driver.builds.builder import BuildSettings
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.compiler import Limits
from opduel.driver.builds.package_builder import PackageBuilder
from opduel.driver.builds.package_sources import read_project
from opduel.driver.git.access import check_remote
from opduel.driver.git.at_hand import errors_about, repository_at
from opduel.driver.git.gitpython import git
from opduel.driver.git.local import snapshot, top_above
from opduel.driver.git.repository import Repository
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, Build, Commit, UsageError
from opduel.support.project_file import PROJECT_FILE
from opduel.support.redaction import redact
from opduel.support.text import counted

log = logging.getLogger(__name__)

_RELEASE = "numpy==2.2.6"  # an example
_ADDRESS = re.compile(r"\s*(?:[A-Za-z0-9][\w.-]*(?:\[[^]]*\])?\s*@\s*)?git\+(?P<url>\S+)(?P<besides>(?:\s.*)?)", re.S)
_SPECIFIER = re.compile(r"[=<>!;[]|~=")
_PYTHON = re.compile(r"python\s*==.*", re.IGNORECASE)
# What can only be a commit's name.
_NO_PACKAGE = re.compile(r"HEAD|@|main|master|trunk|develop|(HEAD|@|[\w./-]+)([~^]\d*|@\{[^}]*\})+|[0-9a-f]{12,40}")
_PACKAGE_FILES = (PROJECT_FILE, "setup.py", "setup.cfg")
_SHOWN = 3  # files in a line
_LIMITS = Limits(time_s=4 * 3600.0, free_bytes=2**30, jobs=len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class NamedCommit:
    """A commit of a package.

    ``name`` is the commit's in the repository at ``place``, the top of a checkout or an address. None stands for the
    work tree of the checkout, or the newest commit at the address. ``besides`` are requirements that its build gets,
    too.
    """

    label: str  # as the user wrote it
    place: str
    name: str | None
    subfolder: str  # the package's in the repository
    besides: tuple[str, ...]
    is_work_tree: bool = False


def named_commit(request: str, here: Path | None = None) -> NamedCommit | None:
    """Return the commit that the name of a build means in the folder ``here``, by default the current one; None where
    it means a release, requirements, an environment or an interpreter.

    Raises:
        UsageError: it is a commit and a file, or a folder that is neither an environment nor a package's checkout; or
            it can only be a commit, and there is none of that name.
    """
    here = Path.cwd() if here is None else here
    if match := _ADDRESS.fullmatch(request):
        return _at_address(redact(request.strip()), match["url"], tuple(match["besides"].split()))
    word, *besides = [request] if _exists(here, request) else request.split() or [""]
    if _exists(here, word) and word.startswith((".", "~", os.sep)):
        return _of_folder(here, word, besides)
    if _SPECIFIER.search(word) or word.startswith((".", "~", os.sep)) or not word:
        return None
    top = top_above(here)
    commit_id = top and _commit_id(top, word)
    if top and commit_id:
        if _exists(here, word):
            kind = "folder" if os.path.isdir(here / word) else "file"
            raise UsageError(
                f"{word}: is a commit's name, and a {kind}: write ./{word} for that, or {commit_id[:12]} for the commit"
            )
        return NamedCommit(word, str(top), word, _package_folder(here, top), tuple(besides))
    if _exists(here, word):
        return _of_folder(here, word, besides)
    _refuse_unknown(word, besides, here, top)
    return None


def commit_build(commit: NamedCommit, framework: Framework, cache: BuildCache, sdists: bool = False) -> Build:
    """Return the build of the commit, from the cache or made now.

    Raises:
        UsageError: there is no such commit.
        RunError: it can't be built.
    """
    with resolved_commit(commit) as (repository, resolved):
        log.info("%s is %s", commit.label, resolved.words)
        settings = BuildSettings(
            _LIMITS,
            beside=commit.besides,
            sdists=sdists,
            subfolder=commit.subfolder or framework.builds.suite_subfolder,
            variables=framework.builds.suite_build_variables,
        )
        builder = PackageBuilder(framework, repository, cache, settings, repository.directory.with_name("builds"))
        try:
            build = builder.build(resolved, "auto")
        except BrokenBuildError as error:
            raise BrokenBuildError(f"{commit.label}: {resolved.short} can't be built: {error}") from None
    name = commit.label if commit.is_work_tree else commit.name
    return (
        build if name is None or resolved.id.startswith(name) else replace(build, requested=f"{name} {build.requested}")
    )


@contextmanager
def resolved_commit(commit: NamedCommit) -> Iterator[tuple[Repository, Commit]]:
    """Open the repository of a named commit, and find the commit in it. Raise UsageError if there is none."""
    repositories = platformdirs.user_cache_path("opduel") / "repositories"
    with errors_about(commit.label), repository_at(commit.place, commit.name, repositories) as repository:
        yield repository, _resolve(repository, commit)


def _at_address(label: str, url: str, besides: tuple[str, ...]) -> NamedCommit:
    """Return the commit at ``URL[@REF][#subdirectory=FOLDER]``, as pip takes it."""
    with errors_about(label):
        check_remote(url.partition("#")[0])
    parts = urlsplit(url)
    path, at, name = parts.path.rpartition("@")
    if not parts.scheme or not (path or name):
        raise UsageError(
            f"{label}: is no address: write NAME @ git+https://HOST/PATH@REF, or git+ssh:// or git+file://"
        )
    address = urlunsplit((parts.scheme, parts.netloc, path if at else name, "", ""))
    subfolder = parse_qs(parts.fragment).get("subdirectory", [""])[0].strip("/")
    return NamedCommit(label, address, unquote(name) if at else None, subfolder, besides)


def _of_folder(here: Path, word: str, besides: Sequence[str]) -> NamedCommit | None:
    """Return the work tree of a package's checkout; None for an environment, an interpreter, or a file of
    requirements."""
    path = here / os.path.expanduser(word)
    refused = UsageError(
        f"{word}: is no build: give a commit, a release, an environment, or the folder of a package in a git checkout; "
        f"a suite of benchmarks is named with --suite {word}"
    )
    if not os.path.isdir(path):
        if path.suffix == ".py":
            raise refused
        return None
    if (path / "bin" / "python").exists() and not (path / ".git").exists():
        return None
    top = top_above(path)
    if top is None or not (_is_package(path) or path.samefile(top) or path.samefile(here)):
        raise refused
    return NamedCommit(word, str(top), None, _package_folder(path, top), tuple(besides), is_work_tree=True)


def _refuse_unknown(word: str, besides: Sequence[str], here: Path, top: Path | None) -> None:
    """Raise UsageError for a word that is neither a path nor a commit, unless it may be a package's name."""
    only_commit = _NO_PACKAGE.fullmatch(word) is not None
    if top is None:
        if only_commit:
            raise UsageError(
                f"{word}: is a commit's name, and {here} is in no git checkout: change into one, or name a release, "
                f"such as {_RELEASE}"
            )
        return
    is_requirement = any(_SPECIFIER.search(line) and not _PYTHON.fullmatch(line) for line in besides)
    is_package = is_requirement or word.endswith(".txt") or canonicalize_name(word) == _project(here, top)
    if is_package and not only_commit:
        return
    release = "" if only_commit else f", or a release as {_project(here, top)}==VERSION"
    raise UsageError(f"{word}: no branch, tag or commit of {top} has that name: give one that has{release}")


def _commit_id(top: Path, word: str) -> str:
    """Return the id of the commit that git takes a word for; empty for none."""
    return "" if word.startswith("-") else _git(top, "rev-parse", "--quiet", "--verify", f"{word}^{{commit}}")


def _git(top: Path, *arguments: str) -> str:
    """Return what git answers in a checkout; empty where it fails. UsageError: it refuses to read a checkout of
    another user's."""
    try:
        return str(git.Repo(top).git.execute(["git", *arguments]))
    except git.GitCommandError as error:
        if "ownership" in str(error.stderr):
            fix = f"run git config --global --add safe.directory {top}"
            raise UsageError(f"{top}: git refuses to read it, as it is another user's: {fix}") from None
    except (git.GitError, OSError):
        pass
    return ""


def _resolve(repository: Repository, commit: NamedCommit) -> Commit:
    """Return the commit itself; for a work tree, the one that is made of it."""
    if commit.is_work_tree:
        work_tree = snapshot(repository)
        changed = counted(len(work_tree.changed), "file") if work_tree.changed else "no file"
        log.info("%s: the work tree, with uncommitted changes in %s", commit.label, changed)
        if missing := (*work_tree.within, *work_tree.left_out):
            names = ", ".join(missing[:_SHOWN]) + (", ..." if len(missing) > _SHOWN else "")
            log.warning("%s: not measured, unless you git add or commit them: %s", commit.label, names)
        return work_tree.commit
    if commit.name is None:
        return repository.resolve(repository.default_branch())
    checkout = repository.checkout_of_user
    commit_id = checkout.commit_id(commit.name) if checkout else None  # as git says it there
    return repository.resolve(commit_id or commit.name)


def _package_folder(folder: Path, top: Path) -> str:
    """Return where the package of a folder in a checkout is, relative to the top: the nearest one above, or else the
    only one below the top."""
    place = Path(os.path.realpath(folder))
    nearest = next((above for above in (place, *place.parents) if above == top or _is_package(above)), top)
    if nearest == top and not _is_package(top):
        below = {path.parent for name in _PACKAGE_FILES for path in top.glob(f"[!.]*/{name}")}
        nearest = below.pop() if len(below) == 1 else top
    return "" if nearest == top else str(nearest.relative_to(top))


def _project(folder: Path, top: Path) -> str:
    """Return the name of the package of a folder in a checkout."""
    place = top / _package_folder(folder, top)
    path = place / PROJECT_FILE
    return read_project(path.read_bytes() if path.is_file() else None, place.name).name


def _is_package(folder: Path) -> bool:
    return any((folder / name).is_file() for name in _PACKAGE_FILES)


def _exists(here: Path, word: str) -> bool:
    return bool(word) and os.path.lexists(here / os.path.expanduser(word))
