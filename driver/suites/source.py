"""Read a suite from a folder, or from a folder of a repository at a commit, with all that identifies it."""

import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opduel.driver.git.access import check_remote, is_url
from opduel.driver.git.at_hand import errors_about, repository_at
from opduel.driver.git.gitpython import git
from opduel.driver.lock import explained_disk_errors
from opduel.driver.suites.configuration import (
    CONFIGURATION,
    SuiteConfiguration,
    interpret,
    names_on_pypi,
    read_configuration,
)
from opduel.driver.suites.pytest_files import in_project, named_files, timed_files
from opduel.records import RunError, UsageError
from opduel.support.atomic import path_part
from opduel.support.digests import file_digest
from opduel.support.redaction import bare_address, redact, without_user

USUAL_FOLDER = "benchmarks"  # as asv has it, where the configuration doesn't say
MOST_BYTES = 2**30  # of a suite's files: each side gets a copy
MOST_FILES = 100_000
OTHER_TEMPORARY_FOLDER = "set TMPDIR to another folder"
LEFT_OUT = {"__pycache__", ".git", ".asv", "env", "results", "html"}  # at a suite's top: asv's own folders, too
PACKAGES = "OPDUEL_SUITE_PACKAGES"  # frameworks/pytest/adaptor/inside.py
_NEVER = {"__pycache__", ".git", ".pytest_cache", ".benchmarks", ".hypothesis"}  # written by tools
# PATH_OR_REPOSITORY[@COMMIT][:SUBFOLDER]; the "@" and ":" of an address are none of these.
_PARTS = re.compile(
    r"(?P<place>[A-Za-z][A-Za-z0-9+.-]*://(?:[^@/]*@)?[^/@]*(?:/[^@:]*)?|[\w.-]+@[\w.-]+:[^@:]+|[^@:]+)"
    r"(?:@(?P<commit>[^@:]+))?(?::(?P<folder>[^:]+))?"
)


class SuiteChangedError(RunError):
    """The suite has changed since the command began, so that nothing can be measured until it begins again."""


@dataclass(frozen=True)
class Suite:
    """A suite's files, in a folder of ours or of the user's.

    ``name`` is the project's, or the folder's. ``digest`` is that of the files, wherever they come from. ``dirty``
    tells whether the folder has changes that its ``commit`` has not; None without a commit. Of tests for pytest,
    ``folder`` is the project's, ``parts`` are the files and folders in it that belong to them, ``tests`` the files that
    have some, and ``packages`` the folders of packages that they lie in.
    """

    requested: str
    pinned: str  # the same, with the commit that it came to, or as an absolute path
    folder: Path  # of the benchmarks
    name: str
    digest: str
    commit: str | None = None
    dirty: bool | None = None
    configuration: SuiteConfiguration = field(default_factory=SuiteConfiguration)
    parts: tuple[str, ...] = ()  # all of the folder, if there are none
    tests: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def framework(self) -> str:
        """The name of the framework that measures it."""
        return "pytest" if self.tests else "asv"

    @property
    def identity(self) -> str:
        """All of it that a run depends on: its files, and what its configuration says of builds."""
        own = self.configuration
        settings = (own.requirements, own.build_variables, own.subfolder, own.timeout_s)
        return json.dumps([self.digest, *settings, *self.tests, *self.packages])

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of both builds' processes."""
        return {PACKAGES: os.pathsep.join(self.packages)} if self.packages else {}

    @property
    def description(self) -> str:
        """Which files these are, in words."""
        state = {True: ", with changes", False: ", as committed", None: ""}[self.dirty]
        at = "" if self.commit is None or self.commit in self.pinned else f" (commit {self.commit[:12]}{state})"
        return f"{redact(self.pinned)}{at}"


def open_suite(requested: str, cache: Path, scratch: Path) -> Suite:
    """Return the suite that ``requested`` names. ``cache`` is the folder for clones; ``scratch`` one for files taken
    out of a repository, which the caller removes.

    Raises:
        UsageError: there is no such folder, file, repository or commit, or no benchmarks in it.
        RunError: the repository can't be had, or its files can't be written.
    """
    folder = Path(os.path.expanduser(requested))
    if os.path.isdir(folder):  # Path.is_dir raises where a name is too long
        return _of_folder(requested, folder.absolute())
    if files := named_files(requested):
        return _of_tests(requested, shlex.join(map(str, files)), files)
    if "://" in requested:
        check_remote(requested, option="--suite")
    parts = _PARTS.fullmatch(requested)
    if parts is None:
        shown = without_user(requested) if is_url(requested) else requested
        raise UsageError(f"--suite {shown}: is neither a folder nor PATH_OR_REPOSITORY[@COMMIT][:SUBFOLDER]: give one")
    place, commit, inner = parts["place"], parts["commit"], parts["folder"] or "."
    path = Path(os.path.expanduser(place)).absolute()
    if is_url(place):
        check_remote(place, option="--suite")
    elif not os.path.isdir(path):
        raise UsageError(
            f"--suite {place}: no such folder or file: give a folder that has {CONFIGURATION} or tests for "
            "pytest-benchmark, a file of such tests, or a repository"
        )
    if not is_url(place) and commit is None:
        return _of_folder(requested, path / inner)
    return _of_commit(requested, place, commit, inner, cache, scratch)


def _of_folder(requested: str, folder: Path) -> Suite:
    """Return the suite in a folder of the user's."""
    if not os.path.isdir(folder):
        raise UsageError(f"--suite {folder}: no such folder: give one that has {CONFIGURATION}, or the benchmarks' own")
    if files := _tests_in(folder):
        return _of_tests(requested, str(folder), files)
    benchmarks, name, configuration = find_benchmarks(folder)
    beside = (f"{above}/{CONFIGURATION}" for above in ("..", "../.."))
    of_configuration = [path for path in beside if (benchmarks / path).is_file()][:1]
    commit, dirty = _state_of(benchmarks, [".", *of_configuration])
    return Suite(requested, str(folder), benchmarks, name, digest_of(benchmarks), commit, dirty, configuration)


def _tests_in(place: Path) -> list[Path]:
    """Return the files of timed tests in a folder that isn't one for asv, and a file as it is."""
    if place.is_file():
        return [place]
    if (place / CONFIGURATION).is_file() or any(place.glob(f"*/{CONFIGURATION}")):
        return []
    beside = place.parent / CONFIGURATION
    if beside.is_file() and read_configuration(beside).get("benchmark_dir", USUAL_FOLDER) == place.name:
        return []
    return timed_files(place)


def _of_tests(requested: str, pinned: str, files: Sequence[Path], name: str = "", commit: str | None = None) -> Suite:
    """Return the suite of these files, which are the user's, or from a repository of this name at a commit."""
    own = in_project(files)
    digest = digest_of(own.root, own.parts)
    state = (commit, False) if commit else _state_of(own.root, own.parts)
    project = path_part(name or own.root.name)
    belongs = own.parts, own.files, own.packages
    return Suite(requested, pinned, own.root, project, digest, *state, SuiteConfiguration(), *belongs)


def _of_commit(requested: str, place: str, name: str | None, inner: str, cache: Path, scratch: Path) -> Suite:
    """Return the suite in a repository, at the commit of that name, or at the newest one."""
    address = redact(place)
    with errors_about(f"--suite {address}"), repository_at(place, name, cache) as repository:
        commit = repository.resolve(name or repository.default_branch())
        files = scratch / "suite"
        folder = str(inner).strip("/") or "."
        if Path(folder).name == CONFIGURATION:
            folder = str(Path(folder).parent)
        try:
            repository.export(commit, str(Path(folder).parent) if folder.endswith(".py") else folder, files)
        except UsageError as error:
            raise UsageError(f"{error}: name one after a colon") from None
        if folder != "." and (project_file := repository.content(commit, "pyproject.toml")):
            (scratch / "pyproject.toml").write_bytes(project_file)  # above the suite, as in the repository
        label = f"{address}@{commit.short}{'' if folder == '.' else f':{folder}'}"
        pinned = f"{place}@{commit.id}{'' if inner == '.' else f':{inner}'}"
        own = files / Path(folder).name if folder.endswith(".py") else files
        if not own.exists():
            raise UsageError(f"--suite {label}: the commit has no such file: correct it")
        if tests := _tests_in(own):
            if folder != ".":  # they need what their project has beside them
                repository.export(commit, ".", scratch / "project")
                tests = [scratch / "project" / folder / path.relative_to(own) for path in tests]
            name = Path(bare_address(place)).name.removesuffix(".git")
            return _of_tests(requested, pinned, tests, name, commit.id)
    benchmarks, project, configuration = find_benchmarks(files, label)
    return Suite(requested, pinned, benchmarks, project, digest_of(benchmarks), commit.id, False, configuration)


def find_benchmarks(folder: Path, label: str | None = None) -> tuple[Path, str, SuiteConfiguration]:
    """Return the folder of benchmarks that ``folder`` is or, by its configuration or that of a folder in it, names; the
    project's name; and the rest of what the configuration says. ``label`` stands for the folder in errors. UsageError:
    it has no benchmarks, or its configuration is wrong."""
    place = label or str(folder)
    beside = folder if (folder / CONFIGURATION).is_file() else folder.parent
    configuration = read_configuration(beside / CONFIGURATION) if (beside / CONFIGURATION).is_file() else {}
    inner = str(configuration.get("benchmark_dir", USUAL_FOLDER))
    if not configuration and (below := sorted(path.parent for path in folder.glob(f"[!.]*/{CONFIGURATION}"))):
        if len(below) == 1:
            return find_benchmarks(below[0], label and f"{label}/{below[0].name}")
        names = " and ".join(path.name for path in below)
        raise UsageError(f"--suite {place}: {names} have an {CONFIGURATION} each: name one of these folders")
    if beside == folder:
        benchmarks = folder / inner
        if not benchmarks.is_dir():
            raise UsageError(f"--suite {place}: {CONFIGURATION}: benchmark_dir: there is no folder {inner}: correct it")
    elif any(folder.glob("*.py")) or any(folder.glob("*/*.py")):
        benchmarks = folder
        if (beside / inner).resolve() != folder.resolve():  # the configuration is another suite's
            configuration = {}
    else:
        raise UsageError(f"--suite {place}: has neither {CONFIGURATION} nor Python files: name the suite's folder")
    if not benchmarks.name.isidentifier():
        raise UsageError(f"--suite {place}: {benchmarks.name} can't be imported under that name: rename the folder")
    name = path_part(str(configuration.get("project") or folder.name))
    on_pypi = names_on_pypi(beside, str(configuration.get("repo_subdir") or "").strip("/"))
    return benchmarks, name, interpret(configuration, f"{place if label else beside}/{CONFIGURATION}", on_pypi)


def files_of(folder: Path, parts: Sequence[str] = ()) -> list[Path]:
    """Return all files of a suite, relative to its folder, sorted; without what Python, asv and pytest write
    themselves. Raise UsageError if there are too many. OSError: a folder can't be read."""
    files = []
    for path in _files_below(folder, parts):
        files.append(path.relative_to(folder))
        if len(files) > MOST_FILES:
            raise UsageError(f"--suite {folder}: has more than {MOST_FILES} files: name a smaller one")
    return sorted(path for path in files if path.suffix != ".pyc")


def _files_below(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    real = os.path.realpath(folder)
    if not parts:
        yield from _walked(folder, (real,))
    for part in (folder / name for name in parts):
        yield from _walked(part, (real, os.path.realpath(part))) if part.is_dir() else [part]


def _walked(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files in a folder, and in those that links lead to, but for links to one that it is in itself;
    ``above``: the real paths of the folder and of those that it was reached through."""
    for path in folder.iterdir():
        if not path.is_dir():
            yield path
        elif not _is_left_out(path, is_at_top=len(above) == 1):
            real = os.path.realpath(path)
            if not any(outer == real or outer.startswith(real.rstrip(os.sep) + os.sep) for outer in above):
                yield from _walked(path, (*above, real))


def _is_left_out(folder: Path, is_at_top: bool) -> bool:
    """Tell whether a suite's folder has no part of it: a package is one, whatever it is called."""
    is_package = (folder / "__init__.py").is_file()
    return folder.name in _NEVER or (is_at_top and folder.name in LEFT_OUT and not is_package)


def digest_of(folder: Path, parts: Sequence[str] = ()) -> str:
    """Return the SHA-256 of all files, with their names; UsageError where they are too large, RunError: one can't be
    read."""
    total, digest = 0, hashlib.sha256()
    try:
        for path in files_of(folder, parts):
            if not (folder / path).is_file():  # a link to nowhere, a socket
                continue
            total += (folder / path).stat().st_size
            if total > MOST_BYTES:
                raise UsageError(f"--suite {folder}: has more than {MOST_BYTES >> 20} MiB of files: name a smaller one")
            digest.update(f"{path}\0{file_digest(folder / path)}\n".encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise RunError(f"--suite {error.filename}: {error.strerror}: make it readable") from None
    return digest.hexdigest()


def copy_suite(suite: Suite, folder: Path) -> Path:
    """Copy the benchmarks into ``folder``, under the name that they are imported by; RunError: it can't be
    made, or the suite was changed."""
    destination = folder / suite.folder.name
    with explained_disk_errors(destination, OTHER_TEMPORARY_FOLDER):
        for path in files_of(suite.folder, suite.parts):
            if (suite.folder / path).is_file():
                (destination / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(suite.folder / path, destination / path)
    if digest_of(destination, suite.parts) != suite.digest:
        shutil.rmtree(destination, ignore_errors=True)
        raise SuiteChangedError(f"--suite {suite.folder}: was changed since it was read: start the run again")
    return destination


def _state_of(folder: Path, parts: Sequence[str] = (".",)) -> tuple[str | None, bool | None]:
    """Return the commit of the work tree that the folder is in, and whether these parts of it differ from it."""
    try:
        repository = git.Repo(folder, search_parent_directories=True)
        commit = repository.head.commit.hexsha
        top = Path(str(repository.working_tree_dir)).resolve()
        inside = [os.path.relpath((folder / part).resolve(), top) for part in parts]
        inside = [path for path in inside if not path.startswith("..")]  # a configuration above the work tree
        if not repository.git.ls_files("--", *inside):  # what git doesn't know, in somebody's work tree
            return None, None
        return commit, any(repository.is_dirty(path=path, untracked_files=True) for path in inside)
    except (git.GitError, ValueError, OSError):  # no repository, none with a commit, or no git
        return None, None
