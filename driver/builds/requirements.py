"""Builds from requirements: resolved once and pinned with hashes, so that they stay the same."""

import hashlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from opduel.driver.builds import uv
from opduel.driver.builds.cache import ANOTHER_CACHE
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.recipes import LockedRecipe, package_of
from opduel.driver.git.access import check_remote
from opduel.driver.lock import explained_disk_errors
from opduel.records import UsageError
from opduel.support.atomic import write_atomically
from opduel.support.digests import data_digest
from opduel.support.files import UnreadableError, read_text

_FILE_SUFFIX = ".txt"
_PYTHON = re.compile(r"python\s*==\s*(.*)", re.IGNORECASE)  # which Python, among the requirements
_PYTHON_VERSION = re.compile(r"3\.[0-9]+")


def requirements_of(request: str) -> tuple[str, ...] | None:
    """Return the requirements that ``request`` says: several with spaces between, or the lines of a file that ends in
    .txt; None if it is another path. Raise UsageError if it is neither, or the file can't be read."""
    path = os.path.expanduser(request)
    if request.endswith(_FILE_SUFFIX) and not os.path.isdir(path):
        return _lines_of(Path(path))
    if os.path.lexists(path) or os.sep in request or request.startswith(("~", ".")):
        return None
    requirements = tuple(_check(request, line) for line in request.split())
    if not requirements:
        raise UsageError(f"{request!r} has no requirements: name a package, such as numpy==2.2.6")
    return requirements


def with_packages(requested: Sequence[str], needed: Sequence[str]) -> tuple[str, ...]:
    """Return the requirements, and those of ``needed`` for packages that they don't name."""
    names = set(map(package_of, requested))
    return (*requested, *(line for line in needed if package_of(line) not in names))


def lock(
    requested: Sequence[str],
    place: Path,
    *,
    sdists: bool = False,
    python: str | None = None,
    similar: tuple[str, str, Sequence[str]] | None = None,
    without: str | None = None,
    besides: Sequence[str] = (),
) -> LockedRecipe:
    """Return the recipe for the requirements, resolved for the Python that one of them names (``python==3.12``), else
    for ``python``, else for the one that runs this; ``place`` is the folder in which the answer is kept for the next
    time.

    ``sdists``: source distributions are taken, too. ``similar``: what similar requirements have in common: their
    purpose, their project, and some lines. The versions of the last answer to such ones are kept where they can be, so
    that a treatment prefers what its control has. ``without``: a package that is left out. ``besides``: further
    requirements, which no message mentions. UsageError: they can't be met; RunError: they can't be resolved, or the
    answer can't be kept.
    """
    python = python_of(requested) or python or "{}.{}".format(*sys.version_info)
    text = "".join(f"{line}\n" for line in with_packages(requested, besides) if not _PYTHON.fullmatch(line))
    more = "".join(["sdists" if sdists else "", f"without {without}" if without else ""])
    digest = hashlib.sha256((python + text + more).encode()).hexdigest()
    answer_path = place / f".locked-{digest[:16]}{_FILE_SUFFIX}"
    preferred = None
    if similar:
        purpose, project, lines = similar
        preferred = place / f".{purpose}-{project}-{data_digest([python, sdists, list(lines)])[:10]}{_FILE_SUFFIX}"
    with explained_disk_errors(answer_path, ANOTHER_CACHE):
        if not answer_path.exists():
            place.mkdir(parents=True, exist_ok=True)
            earlier = preferred.read_text(encoding="utf-8") if preferred and preferred.exists() else ""
            interpreter, words = find_interpreter(python), " ".join(requested)
            answer = uv.resolve(words, text, interpreter, sdists=sdists, preferred=earlier, without=without)
            write_atomically(answer_path, answer.encode())
        recipe = LockedRecipe(tuple(requested), python, answer_path.read_text(encoding="utf-8"), sdists)
    if preferred:
        _prefer(preferred, recipe.locked)
    if not recipe.pins and not without and text:  # all of them for other Pythons, or other systems
        raise UsageError(
            f"{recipe.request}: none of these packages is for Python {python} on this system: name one that is"
        )
    return recipe


def lock_with_suite(suite: Sequence[str], lock_with: Callable[[Sequence[str]], LockedRecipe]) -> LockedRecipe:
    """Return what ``lock_with`` returns for the requirements of a suite. UsageError: they, or those besides, can't be
    met; says how the suite's are left out."""
    try:
        return lock_with(suite)
    except uv.UnresolvableError as error:
        if not suite:
            raise
        lock_with(())  # what can't be met without the suite's is the user's own
        why = f"{' '.join(suite)}, which its project or --suite_packages lists, can't be resolved: {error.reason}"
        raise UsageError(
            f"--suite: {why}: leave packages out with --suite_packages, or name other versions there{error.hint}"
        ) from None


def python_of(requested: Sequence[str]) -> str | None:
    """Return the Python that the requirements name, ``3.12``; None if they name none. Raise UsageError if it is no
    version, or they name two."""
    versions = {match[1] for line in requested if (match := _PYTHON.fullmatch(line))}
    for version in versions:
        if not _PYTHON_VERSION.fullmatch(version):
            raise UsageError(f"python=={version}: not a version of Python: write one such as python==3.12")
    if len(versions) > 1:
        raise UsageError(f"{' and '.join(f'python=={version}' for version in sorted(versions))}: name one Python")
    return next(iter(versions), None)


def _prefer(path: Path, answer: str) -> None:
    with suppress(OSError):  # a cache that is only read has answers still
        if not path.exists() or path.read_text(encoding="utf-8") != answer:
            write_atomically(path, answer.encode())


def _lines_of(path: Path) -> tuple[str, ...]:
    """Return the requirements in a file, without comments; continued lines are joined."""
    try:
        text = read_text(path)
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}: give requirements, or the path of a file that holds them") from None
    lines = re.sub(r"\\\n", " ", text).splitlines()
    requirements = [" ".join(re.sub(r"(^|\s)#.*", "", line).split()) for line in lines]
    requirements = [line for line in requirements if line]
    if not requirements:
        raise UsageError(f"{path}: has no requirements: name a package on each line, such as numpy==2.2.6")
    for line in requirements:
        if line.startswith("-"):
            raise UsageError(f"{path}: {line!r}: options are not supported: name the packages themselves")
        _check(str(path), re.sub(r" --hash=\S+", "", line))
    return tuple(requirements)


def _check(request: str, requirement: str) -> str:
    try:
        if (url := Requirement(requirement).url) is not None:
            check_remote(url, "let ~/.netrc or git's credential helper have it", "the requirement")
    except InvalidRequirement:
        raise UsageError(
            f"{request!r}: {requirement!r} is neither a requirement nor a path: give one such as numpy==2.2.6, or "
            "several with spaces between, without spaces within"
        ) from None
    return requirement
