"""Suites of tests for pytest: the files with tests that are timed, and the project that these belong to."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from glob import glob
from itertools import takewhile
from pathlib import Path

from opduel.records import UsageError

# Which files pytest collects in a folder, and as others call files of benchmarks.
_IS_TEST = re.compile(r"(test|bench|benchmark)s?(_.*)?\.py|.*_(test|bench|benchmark)s?\.py")
_TAKES_IT = r"\bdef\s+(\w+)\s*\([^)]*\b(?:codspeed_)?benchmark\b"  # a test, or another fixture
_IS_TIMED = re.compile(rf"{_TAKES_IT}|\bmark\.(?:codspeed_)?benchmark\b")
_ELSEWHERE = {"node_modules", "build", "dist", "target", "site-packages", "__pycache__"}  # not the project's own
_SETTINGS = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")  # which pytest reads
_OF_PROJECT = (*_SETTINGS, "setup.py", ".git")
_LIKE_TESTS = re.compile(r"(?:^|[_-])(?:tests?|testsuites?|testing|bench\w*|perf\w*)(?:$|[_-])", re.IGNORECASE)
# The same of a package by itself, and of a folder inside a package, which may be code that tests test.
_IS_OF_TESTS = re.compile(r"tests?|testsuites?|bench\w*|perf\w*", re.IGNORECASE)
_TESTS_INSIDE = re.compile(r"(?:^|[_-])(?:tests?|testsuites?|bench|benchmarks?)(?:$|[_-])", re.IGNORECASE)


@dataclass(frozen=True)
class ProjectFiles:
    """Files with tests, in a project.

    ``root`` is the project's folder, by which pytest names tests; ``parts`` are the files and folders in it that belong
    to the tests, ``files`` the files to collect, all relative to it. ``packages`` are the folders of packages that have
    some of the parts, but don't belong to the tests themselves, outer ones first.
    """

    root: Path
    parts: tuple[str, ...]
    files: tuple[str, ...]
    packages: tuple[str, ...] = ()


def named_files(requested: str) -> list[Path]:
    """Return the files that a text names, one or several words, also by patterns; those in a folder that have timed
    tests. Return none if the text names no Python file, or is that of another suite. UsageError: one isn't there."""
    words = [requested] if os.path.exists(os.path.expanduser(requested)) else _words(requested)
    place, _, test = requested.partition("::")
    if test and os.path.isfile(os.path.expanduser(place)):
        fix = f"give the file, and the test as --bench {shlex.quote(test)}"
        raise UsageError(f"--suite {requested}: names a test: {fix}")
    if len(words) == 1 and not (words[0].endswith(".py") or "*" in words[0]):
        return []
    files: list[Path] = []
    for word in words:
        path = os.path.expanduser(word)
        matches = sorted(glob(path, recursive=True)) if re.search(r"[*?[]", word) else [path] * os.path.exists(path)
        if not matches and words == [requested] and re.search("[@:]", word):  # of a repository
            return []
        if not matches:
            raise UsageError(f"--suite {word}: no such file: correct it")
        for match in map(Path, matches):
            files += timed_files(match) if match.is_dir() else [match.absolute()] * (match.suffix == ".py")
    return list(dict.fromkeys(files))


def _words(requested: str) -> list[str]:
    try:
        return shlex.split(requested)
    except ValueError:
        return [requested]


def timed_files(folder: Path) -> list[Path]:
    """Return the files in a folder that have timed tests: with the fixture ``benchmark``, itself or through one of a
    conftest.py, or with its mark."""
    folder = folder.absolute()
    paths = [path for path in _walked(folder) if _IS_TEST.fullmatch(path.name) or path.name == "conftest.py"]
    above = [place / "conftest.py" for place in folder.parents if place.is_relative_to(_root_of(folder))]
    texts = {path: _text(path) for path in [*paths, *filter(os.path.isfile, above)]}
    shared = [text for path, text in texts.items() if path.name == "conftest.py"]
    fixtures = {name for text in shared for name in re.findall(_TAKES_IT, text)}
    uses_one = re.compile(rf"\b(?:{'|'.join(fixtures)})\b") if fixtures else re.compile(r"(?!)")
    return [
        path
        for path, text in texts.items()
        if path.name != "conftest.py" and (_IS_TIMED.search(text) or uses_one.search(text))
    ]


def _walked(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that may be the project's own, sorted."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _ELSEWHERE
            and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from (Path(place, name) for name in sorted(names))


def in_project(files: Sequence[Path]) -> ProjectFiles:
    """Return what these files are in their project. UsageError: there is none that has them all."""
    common = Path(os.path.commonpath([path.parent for path in files]))
    root = _root_of(common)
    own = tuple(str(path.relative_to(root)) for path in files)
    parts = dict.fromkeys(_part(root, file) for file in own)
    conftests = [str(folder / "conftest.py") for part in parts for folder in _folders_above(part)]
    settings = [name for name in (*conftests, "conftest.py", *_SETTINGS) if (root / name).is_file()]
    return ProjectFiles(root, tuple(dict.fromkeys([*parts, *settings])), own, _packages_of(root, parts))


def _folders_above(part: str) -> list[Path]:
    """Return the folders that a part of a project is in, outer ones first, without the project's own."""
    return list(reversed(Path(part).parents))[1:]


def _packages_of(root: Path, parts: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of packages that these parts of a project are in."""
    packages = set[str]()
    for part in parts:
        for folder in reversed(_folders_above(part)):
            if not _is_package(root / folder):
                break
            packages.add(str(folder))
    return tuple(sorted(packages))


def _is_package(folder: Path) -> bool:
    return folder.name.isidentifier() and (folder / "__init__.py").is_file()


def _root_of(folder: Path) -> Path:
    """Return the nearest folder that looks like a project's, this one or one above it; else this one."""
    places = (folder, *folder.parents)
    return next((place for place in places if any((place / name).exists() for name in _OF_PROJECT)), folder)


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""


def _part(root: Path, file: str) -> str:
    """Return the outermost folder in the project that is one of tests, with their fixtures and data; of a file in none,
    its own folder, and of one in the project's folder, or beside the code of a package, the file itself."""
    folders = _folders_above(file)
    outside = list(takewhile(lambda folder: not _is_package(root / folder), folders))
    inside = folders[len(outside) + 1 :]
    is_inside = len(outside) < len(folders) and not _IS_OF_TESTS.fullmatch(folders[len(outside)].name)
    if is_inside and not any(_LIKE_TESTS.search(folder.name) for folder in outside):
        of_tests = [folder for folder in inside if _TESTS_INSIDE.search(folder.name)]
        of_tests += [folder for folder in inside if _IS_OF_TESTS.fullmatch(folder.name)]
        return str(of_tests[0]) if of_tests else file
    return str(next((folder for folder in folders if _LIKE_TESTS.search(folder.name)), (folders or [Path(file)])[-1]))
