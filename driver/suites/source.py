"""Read a suite from a folder, or from a folder of a repository at a commit, with all that identifies it."""

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opduel.driver.git.access import check_remote, is_url
from opduel.driver.git.gitpython import git
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.lock import sole_driver
from opduel.driver.suites.configuration import CONFIGURATION, SuiteConfiguration, interpret, read_configuration
from opduel.records import RunError, UsageError
from opduel.support.atomic import path_part
from opduel.support.digests import file_digest
from opduel.support.redaction import bare_address, redact, without_user

log = logging.getLogger(__name__)

USUAL_FOLDER = "benchmarks"  # as asv has it, where the configuration doesn't say
MOST_BYTES = 2**30  # of a suite's files: each side gets a copy
MOST_FILES, DEEPEST = 100_000, 40
LEFT_OUT = {"__pycache__", ".git", ".asv", "env", "results", "html"}  # at a suite's top: asv's own folders, too
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
    tells whether the folder has changes that its ``commit`` has not; None without a commit.
    """

    requested: str
    pinned: str  # the same, with the commit that it came to, or as an absolute path
    folder: Path  # of the benchmarks
    name: str
    digest: str
    commit: str | None = None
    dirty: bool | None = None
    configuration: SuiteConfiguration = field(default_factory=SuiteConfiguration)

    @property
    def identity(self) -> str:
        """All of it that a run depends on: its files, and what its configuration says of builds."""
        own = self.configuration
        return json.dumps([self.digest, own.requirements, own.build_variables, own.subfolder, own.timeout_s])

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
        UsageError: there is no such folder, repository or commit, or no benchmarks in it.
        RunError: the repository can't be had, or its files can't be written.
    """
    folder = Path(os.path.expanduser(requested))
    if os.path.isdir(folder):  # Path.is_dir raises where a name is too long
        return _of_folder(requested, folder.absolute())
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
        raise UsageError(f"--suite {place}: no such folder: give one that has {CONFIGURATION}, or a repository")
    if not is_url(place) and commit is None:
        return _of_folder(requested, path / inner)
    return _of_commit(requested, place, commit, inner, cache, scratch)


def _of_folder(requested: str, folder: Path) -> Suite:
    """Return the suite in a folder of the user's."""
    if not os.path.isdir(folder):
        raise UsageError(f"--suite {folder}: no such folder: give one that has {CONFIGURATION}, or the benchmarks' own")
    benchmarks, name, configuration = find_benchmarks(folder)
    commit, dirty = _state_of(benchmarks)
    return Suite(requested, str(folder), benchmarks, name, digest_of(benchmarks), commit, dirty, configuration)


def _of_commit(requested: str, place: str, name: str | None, inner: str, cache: Path, scratch: Path) -> Suite:
    """Return the suite in a repository, at the commit of that name, or at the newest one."""
    address = redact(place)
    work = cache / f"{path_part(bare_address(place))[-40:]}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"
    with sole_driver(work, waits=True):
        try:
            repository = _opened(place, work, name)
            commit = repository.resolve(name or repository.default_branch())
        except UsageError as error:
            why = re.sub(r"^--\w+ (\S+: )?", "", str(error))  # without the option of another command
            raise UsageError(f"--suite {address}: {why}") from None
        files = scratch / "suite"
        folder = str(inner).strip("/") or "."
        if Path(folder).name == CONFIGURATION:
            folder = str(Path(folder).parent)
        try:
            repository.export(commit, folder, files)
        except UsageError as error:
            raise UsageError(f"--suite {address}: {error}: name one after a colon") from None
    label = f"{address}@{commit.short}{'' if folder == '.' else f':{folder}'}"
    benchmarks, project, configuration = find_benchmarks(files, label)
    pinned = f"{place}@{commit.id}{'' if inner == '.' else f':{inner}'}"
    return Suite(requested, pinned, benchmarks, project, digest_of(benchmarks), commit.id, False, configuration)


def _opened(place: str, work: Path, name: str | None) -> Repository:
    """Open the repository, with the commit of that name; a folder's objects are borrowed, an address is cloned."""
    if not is_url(place):
        return open_repository(work, None, Path(os.path.expanduser(place)))
    is_new = not (work / "repository.git").exists()
    if is_new:
        log.info("cloning %s, once, into %s", redact(place), work)
    repository = open_repository(work, place)
    has_commit = name is not None and re.fullmatch("[0-9a-f]{40}", name) is not None and _has(repository, name)
    if not is_new and not has_commit:
        repository.fetch()
    return repository


def _has(repository: Repository, name: str) -> bool:
    try:
        return bool(repository.resolve(name))
    except UsageError:
        return False


def find_benchmarks(folder: Path, label: str | None = None) -> tuple[Path, str, SuiteConfiguration]:
    """Return the folder of benchmarks that ``folder`` is or, by its configuration, names; the project's name; and the
    rest of what the configuration says. ``label`` stands for the folder in errors. UsageError: it has no benchmarks, or
    its configuration is wrong."""
    place = label or str(folder)
    beside = folder if (folder / CONFIGURATION).is_file() else folder.parent
    configuration = read_configuration(beside / CONFIGURATION) if (beside / CONFIGURATION).is_file() else {}
    inner = str(configuration.get("benchmark_dir", USUAL_FOLDER))
    if not configuration and (below := sorted(path.parent.name for path in folder.glob(f"*/{CONFIGURATION}"))):
        raise UsageError(f"--suite {place}: has no {CONFIGURATION}, its folder {below[0]} has: name that one")
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
    return benchmarks, name, interpret(configuration, f"{place if label else beside}/{CONFIGURATION}")


def files_of(folder: Path) -> list[Path]:
    """Return all files of a suite, relative to it, sorted; without what Python and asv write themselves. Raise
    UsageError if there are too many. OSError: a folder can't be read."""
    files = []
    for path in _walked(folder, (os.path.realpath(folder),)):
        files.append(path.relative_to(folder))
        if len(files) > MOST_FILES:
            raise UsageError(f"--suite {folder}: has more than {MOST_FILES} files: name a smaller one")
    return sorted(path for path in files if path.suffix != ".pyc")


def _walked(folder: Path, above: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files in a folder, and in those that links lead to, but for links to one that it is in itself;
    ``above``: the real paths of the folder and of those that it was reached through."""
    if len(above) > DEEPEST:
        raise UsageError(
            f"--suite {folder}: is more than {DEEPEST} folders deep: name one whose links lead nowhere else"
        )
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
    return folder.name in ("__pycache__", ".git") or (is_at_top and folder.name in LEFT_OUT and not is_package)


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of all files, with their names; UsageError where they are too large, RunError: one can't be
    read."""
    total, digest = 0, hashlib.sha256()
    try:
        for path in files_of(folder):
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
    try:
        for path in files_of(suite.folder):
            if (suite.folder / path).is_file():
                (destination / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(suite.folder / path, destination / path)
    except OSError as error:
        raise RunError(f"{error.filename or destination}: {error.strerror}: free some space, or set TMPDIR") from None
    if digest_of(destination) != suite.digest:
        shutil.rmtree(destination, ignore_errors=True)
        raise SuiteChangedError(f"--suite {suite.folder}: was changed since it was read: start the run again")
    return destination


def literal_words(pattern: str) -> list[str]:
    """Return the parts of words that are in whatever matches this regular expression, as far as that is plain: none
    where it has more than letters, digits, escaped punctuation, ``.``, ``.*``, ``.+``, ``^`` and ``$``. Names that a
    suite composes (``"time_" + name``) are in no file, but their parts are."""
    if re.fullmatch(r"(?:\w|\\[^\w\s]|\.[*+]?|[\^$ ,'<>:=-])*", pattern) is None:
        return []
    return re.findall(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}", re.sub(r"\\.", " ", pattern))


def mentions(suite: Suite, pattern: str) -> bool:
    """Tell whether a regular expression matches something in a suite's file, or in its path."""
    paths = (path for path in files_of(suite.folder) if (suite.folder / path).is_file())
    in_path, in_file = re.compile(pattern), re.compile(pattern.encode())
    return any(in_path.search(str(path)) or in_file.search((suite.folder / path).read_bytes()) for path in paths)


def _state_of(folder: Path) -> tuple[str | None, bool | None]:
    """Return the commit of the work tree that the folder is in, and whether the folder differs from it."""
    try:
        repository = git.Repo(folder, search_parent_directories=True)
        commit = repository.head.commit.hexsha
        inside = os.path.relpath(folder.resolve(), Path(str(repository.working_tree_dir)).resolve())
        if not repository.git.ls_files("--", inside):  # a folder that git doesn't know, in somebody's work tree
            return None, None
        return commit, repository.is_dirty(path=inside, untracked_files=True)
    except (git.GitError, ValueError, OSError):  # no repository, none with a commit, or no git
        return None, None
