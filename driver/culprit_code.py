"""Compare a culprit's changed lines with the functions that causes name; list its changed dependencies and build files.

The strongest relation that holds is claimed: a changed line lies in the function ("changed"), a changed line has its
name ("named"), or it is defined in a changed file ("in").  Python's own parser finds functions in Python; all others
are found by their names and by what definitions look like.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal

from opduel.driver.function_lines import changes_function, defines, function_ranges
from opduel.driver.git.patch import ChangedFile
from opduel.driver.git.repository import Repository
from opduel.records import Candidate, Cause, Commit
from opduel.records.cause import CODE_OF, Source, source_file_of, without_clone

Relation = Literal["changed", "named", "in"]

# The sources whose parts are native functions; the first of them that has a function gives its file.
NATIVE: tuple[Source, ...] = (
    *("native functions", "sampled functions", "mispredicted branches"),
    *("allocations", "mapped memory", "simulated cache misses"),
)
PYTHON: Source = "Python functions"
OPERATORS: Source = "operators"  # some are Python functions: all that Python's own profiler sees
MOST_FILES = 200  # changed files that are searched for a function's definition; a larger change says little
SHORTEST_NAME = 3  # characters: a shorter one is found everywhere

_WORDS: Mapping[Relation, str] = {
    "changed": "changed in the culprit",
    "named": "named in lines that the culprit changed",
    "in": "in a file that the culprit changed",
}
_DEPENDENCIES = (
    *("requirements*.txt", "*requirements.txt", "constraints*.txt", "*.lock", "environment*.y*ml", "Pipfile"),
    *("vcpkg.json", "conanfile.*", ".gitmodules", "*.wrap", "MODULE.bazel", "deps.txt"),
)
_BUILD = (
    *("CMakeLists.txt", "*.cmake", "CMakePresets.json", "meson.build", "meson.options", "meson_options.txt"),
    *("Makefile*", "*.mk", "*.bzl", "BUILD", "BUILD.bazel", "WORKSPACE", ".bazelrc", "configure", "configure.ac"),
    *("pyproject.toml", "setup.py", "setup.cfg", "Dockerfile*", "*.Dockerfile"),
)
_WHERE = re.compile(r"(.+?)(?::\d+|(?<=\.cc)|(?<=\.cpp)|(?<=\.cxx)|(?<=\.c)|(?<=\.cu)|(?<=\.h))$")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[\w<>]+)+")
_QUALIFIER = re.compile(r"(?:::|\.)(?=[A-Za-z_])")


@dataclass(frozen=True)
class Match:
    """A function in a case's cause, and its relation to a file that the culprit changed."""

    case: str
    function: str
    file: str
    relation: Relation


@dataclass(frozen=True)
class ChangedCode:
    """What a culprit changed.

    ``matches`` are the functions of causes that it has to do with, ``dependencies`` changed submodules and lists of
    dependencies, ``build`` changed files that configure the build.
    """

    matches: Sequence[Match] = ()
    dependencies: Sequence[str] = ()
    build: Sequence[str] = ()


def changed_code(repository: Repository, good: Commit, bad: Commit, causes: Mapping[str, Cause]) -> ChangedCode:
    """Compare what changed between the last good and the first bad commit with the causes of cases. RunError: git can't
    read the changes."""
    code = _Code(repository, good, bad)
    parts = ((case, part) for case, cause in causes.items() for part in _functions_of(cause))
    matches = tuple(match for case, part in parts for match in code.matches(case, *part))
    return ChangedCode(matches, code.dependencies, code.build)


def names_functions(cause: Cause) -> bool:
    """Tell whether a function accounts for a part of the change."""
    return bool(_functions_of(cause))


def changed_code_document(code: ChangedCode | None) -> dict[str, object] | None:
    """Return the changes as plain JSON data: see docs/explanation/bisection.md."""
    if code is None:
        return None
    return {
        "functions": [
            {"case": match.case, "function": match.function, "file": match.file, "how": match.relation}
            for match in code.matches
        ],
        "dependencies": list(code.dependencies),
        "build": list(code.build),
    }


def changed_code_lines(code: ChangedCode) -> Iterable[str]:
    """Describe the changes in words, a line each.

    A function that is merely in a changed file is left out if its case has another one that was changed or named.
    """
    explained_cases = {match.case for match in code.matches if match.relation != "in"}
    for relation, words in _WORDS.items():
        files: dict[str, dict[str, None]] = {}
        for match in code.matches:
            if match.relation == relation and (relation != "in" or match.case not in explained_cases):
                files.setdefault(match.file, {})[match.function] = None
        for file, functions in files.items():
            yield f"{words}: {file} ({', '.join(functions)})"
    if code.dependencies:
        yield f"the culprit changes dependencies: {', '.join(code.dependencies)}"
    if code.build:
        yield f"the culprit changes build files: {', '.join(code.build)}"


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(PurePosixPath(path).name, pattern) for pattern in patterns)


def _functions_of(cause: Cause) -> list[tuple[bool, Candidate]]:
    """Return, each once, the functions with a part of the change that differs from 0, and those that a case runs and
    whose code differs; and whether they are native."""
    function_by_name: dict[str, tuple[bool, Candidate]] = {}
    for examination in cause.examinations:
        is_native = examination.source in NATIVE
        for candidate in examination.candidates:
            is_python = examination.source == PYTHON or (
                examination.source == OPERATORS and _DOTTED.fullmatch(candidate.name)
            )
            if (is_native or is_python) and candidate.ci and (candidate.ci[0] > 0 or candidate.ci[1] < 0):
                function_by_name.setdefault(candidate.name, (is_native, candidate))
        for name, place in examination.changed.items():
            function_by_name.setdefault(name, (False, Candidate(name, 0.0, 0.0, where=place)))
    return list(function_by_name.values())


class _Code:
    """The files that differ between two commits, and those texts of them that were needed."""

    def __init__(self, repository: Repository, good: Commit, bad: Commit) -> None:
        self._repository, self._commits = repository, (good, bad)
        self._texts: dict[str, tuple[str, str]] = {}
        files = repository.changes(good, bad)
        self.dependencies = tuple(
            file.path for file in files if file.is_submodule or _matches(file.path, _DEPENDENCIES)
        )
        self.build = tuple(file.path for file in files if not file.is_submodule and _matches(file.path, _BUILD))
        configured = (*_DEPENDENCIES, *_BUILD)
        self._files = [file for file in files if not file.is_submodule and not _matches(file.path, configured)]

    def matches(self, case: str, is_native: bool, part: Candidate) -> Iterator[Match]:
        """Return the files with the strongest relation to a function; none if it has no name to look for."""
        sources = [file for name in (part.name, part.was, *part.merged) if (file := source_file_of(name))]
        if sources:  # code without symbols: its source file is known by a path that the compiler was given
            yield from (
                Match(case, part.name, file.path, "in")
                for file in self._files
                if any(_ends_alike(source, file.path) for source in sources)
            )
            return
        names = {bare_name(name) for name in (part.name, part.was, *part.merged)}
        names = {name for name in names if len(name) >= SHORTEST_NAME}
        if not names:
            return
        files, located = self._candidate_files(is_native, part)
        claims = {file.path: self._claim(file, part, names, located) for file in files}
        for relation in _WORDS:
            paths = [path for path, claim in claims.items() if claim == relation]
            yield from (Match(case, part.name, path, relation) for path in paths)
            if paths:
                return

    def _candidate_files(self, is_native: bool, part: Candidate) -> tuple[Sequence[ChangedFile], bool]:
        """Return the files that can contain a function, or call it, and whether it can be defined there.

        It can't where its own file is known and has not changed.
        """
        files = [file for file in self._files if not (is_native and file.path.endswith(".py"))]
        match = _WHERE.match(part.where)
        if match is None and is_native:
            return files, True
        near = [
            file
            for file in files
            if (match and _ends_alike(match[1], file.path)) or (not is_native and _is_module_of(file, part.name))
        ]
        if part.name.startswith(CODE_OF):  # its file is known for certain
            return near, True
        return near or files, bool(near)

    def _claim(self, file: ChangedFile, part: Candidate, names: set[str], located: bool) -> Relation | None:
        word = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
        is_named = any(word.search(line) for hunk in file.hunks for line in hunk.lines)
        if not located:
            return "named" if is_named else None
        versions = [function_ranges(text) for text in self._text(file)] if file.path.endswith(".py") else []
        parsed = [ranges for ranges in versions if ranges is not None]
        if len(parsed) == 2:
            own_names = (part.name, part.was or part.name, *part.merged)
            ranges = [
                [lines for own, lines in version.items() if any(_is_called(name, own) for name in own_names)]
                for version in parsed
            ]
            changed = any(
                max(lines.start, function_lines.start) < min(lines.stop, function_lines.stop)
                for hunk in file.hunks
                for lines, functions in zip((hunk.before, hunk.after), ranges, strict=True)
                for function_lines in functions
            )
            return "changed" if changed else "named" if is_named else "in" if any(ranges) else None
        if any(changes_function(hunk, word.pattern) for hunk in file.hunks):
            return "changed"
        if is_named or len(self._files) > MOST_FILES:
            return "named" if is_named else None
        lines = (line for text in self._text(file) for line in text.split("\n"))
        return "in" if any(word.search(line) and defines(line, word.pattern) for line in lines) else None

    def _text(self, file: ChangedFile) -> tuple[str, str]:
        """Return both versions of a file; empty where there is none."""
        if file.path not in self._texts:
            before, after = (
                self._repository.content(commit, path) or b""
                for commit, path in zip(self._commits, (file.was, file.path), strict=True)
            )
            self._texts[file.path] = before.decode("utf-8", "replace"), after.decode("utf-8", "replace")
        return self._texts[file.path]


def _is_module_of(file: ChangedFile, name: str) -> bool:
    """Tell whether a file can be the module of a function with that dotted name."""
    path = PurePosixPath(file.path)
    module = path.parent.name if path.stem == "__init__" else path.stem
    return path.suffix == ".py" and module in name.split(".")[:-1]


def _is_called(full: str, name: str) -> bool:
    """Tell whether a full name can be that of a file's function: ``numpy.lib.Table.rows``, or an unnamed part of it
    such as ``numpy.lib.Table.rows.<listcomp>``, of ``Table.rows``."""
    parts, own = [part for part in full.split(".") if not part.startswith("<")], name.split(".")
    return parts[-len(own) :] == own


def _ends_alike(path: str, other_path: str) -> bool:
    """Tell whether the shorter path is the end of the longer one."""
    shorter, longer = sorted((PurePosixPath(path).parts, PurePosixPath(other_path).parts), key=len)
    return longer[-len(shorter) :] == shorter


def bare_name(name: str) -> str:
    """Return a function's name alone: ``Sum`` of ``void lib::op::Sum<float>(int*)``, ``solve`` of
    ``numpy.linalg.solve``; empty without a name, as for ``libc.so (no symbols)``."""
    if "(no symbols)" in name or name.startswith("("):
        return ""
    depth, outer = 0, ""
    for char in without_clone(name).replace("(anonymous namespace)", "anonymous").replace(".<locals>", ""):
        depth += char in "<("
        outer += char if depth == 0 else ""
        depth -= char in ">)"
    words = [word for word in outer.split() if word not in ("const", "volatile", "&", "&&")]
    match = re.match(r"[A-Za-z_]\w*", _QUALIFIER.split(words[-1])[-1]) if words else None
    return match[0] if match else ""
