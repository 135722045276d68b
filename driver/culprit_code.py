"""What a culprit changed of what the causes name: its lines compared with their functions, and what it changed besides.

Three claims, the strongest that holds: a changed line lies in the function ("changed"), a changed line has its name
("named"), or it is defined in a changed file ("in").  Functions in Python are found by Python's own parser, all others
by their names and by how definitions are written.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Literal

from opduel.driver.function_lines import changes_function, defines, function_ranges
from opduel.driver.git.patch import ChangedFile, parse_patch
from opduel.driver.git.repository import Repository
from opduel.records import Candidate, Cause, Commit
from opduel.records.cause import CODE_OF, Source, source_file_of, without_clone

How = Literal["changed", "named", "in"]

# The sources whose parts are native functions; the first of them that has a function says where it is.
NATIVE: tuple[Source, ...] = (
    *("native functions", "sampled functions", "mispredicted branches"),
    *("allocations", "mapped memory", "simulated cache misses"),
)
PYTHON: Source = "Python functions"
OPERATORS: Source = "operators"  # some are Python functions: all that Python's own profiler sees
MOST_FILES = 200  # changed files that are searched for a function's definition; a larger change says little
LARGEST_FILE = 4_000_000  # bytes
SHORTEST_NAME = 3  # characters: a shorter one is found everywhere

_WORDS: Mapping[How, str] = {
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
    *("setup.py", "setup.cfg", "Dockerfile*", "*.Dockerfile"),
)
_PROJECT = "pyproject.toml"
_BACKENDS = (
    "setuptools",
    "scikit-build",
    "meson-python",
    "hatch",
    "poetry",
    "flit",
    "maturin",
    "cython",
    "cibuildwheel",
)
_WHERE = re.compile(r"(.+?)(?::\d+|(?<=\.cc)|(?<=\.cpp)|(?<=\.cxx)|(?<=\.c)|(?<=\.cu)|(?<=\.h))$")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[\w<>]+)+")
_QUALIFIER = re.compile(r"(?:::|\.)(?=[A-Za-z_])")


@dataclass(frozen=True)
class Match:
    """A function in a case's cause that the culprit has to do with, and the file. ``how``: one of its lines was
    "changed", or a changed line has its name ("named"), or it is "in" a file that was changed."""

    case: str
    function: str
    file: str
    how: How


@dataclass(frozen=True)
class ChangedCode:
    """What a culprit changed. ``looked_at``: cases with a cause that names functions; ``matches``: of those.

    ``dependencies``: submodules and lists of dependencies that it changed; ``build``: files that say how the library is
    compiled.
    """

    matches: Sequence[Match] = ()
    looked_at: Sequence[str] = ()
    dependencies: Sequence[str] = ()
    build: Sequence[str] = ()


def changed_code(repository: Repository, good: Commit, bad: Commit, causes: Mapping[str, Cause]) -> ChangedCode:
    """What lies between two commits, the last good one and the first bad one, compared with the causes of cases.

    Raises:
        RunError: git can't tell.
    """
    code = _Code(repository, good, bad)
    parts = {case: list(_functions_of(cause)) for case, cause in causes.items()}
    return ChangedCode(
        matches=tuple(match for case, found in parts.items() for part in found for match in code.matches(case, *part)),
        looked_at=tuple(case for case, found in parts.items() if found),
        dependencies=code.dependencies,
        build=code.build,
    )


def names_functions(cause: Cause) -> bool:
    """Whether a function accounts for a part of the change."""
    return any(True for _ in _functions_of(cause))


def changed_code_document(code: ChangedCode | None) -> dict[str, object] | None:
    """As plain JSON data: see docs/explanation/bisection.md."""
    if code is None:
        return None
    return {
        "functions": [
            {"case": one.case, "function": one.function, "file": one.file, "how": one.how} for one in code.matches
        ],
        "dependencies": list(code.dependencies),
        "build": list(code.build),
    }


def changed_code_lines(code: ChangedCode) -> Iterable[str]:
    """In words, a line each. That a function is merely in a changed file is left out of a case of which more can be
    said."""
    told = {one.case for one in code.matches if one.how != "in"}
    for how, words in _WORDS.items():
        files: dict[str, dict[str, None]] = {}
        for one in code.matches:
            if one.how == how and (how != "in" or one.case not in told):
                files.setdefault(one.file, {})[one.function] = None
        for file, functions in files.items():
            yield f"{words}: {file} ({', '.join(functions)})"
    if code.looked_at and not code.matches:
        yield "no function in the cause is in a file that the culprit changed"
    if code.dependencies:
        yield f"the culprit changes dependencies: {', '.join(code.dependencies)}"
    if code.build:
        yield f"the culprit changes build files: {', '.join(code.build)}"


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(PurePosixPath(path).name, pattern) for pattern in patterns)


def _functions_of(cause: Cause) -> Iterator[tuple[bool, Candidate]]:
    """Functions that account for a part of the change, clear of 0, each once; and whether one is native."""
    found: dict[str, tuple[bool, Candidate]] = {}
    for seen in cause.examinations:
        native = seen.source in NATIVE
        for one in seen.candidates:
            is_function = native or seen.source == PYTHON or (seen.source == OPERATORS and _DOTTED.fullmatch(one.name))
            if is_function and one.ci and (one.ci[0] > 0 or one.ci[1] < 0):
                found.setdefault(one.name, (native, one))
    yield from found.values()


class _Code:
    """What differs between two commits, with the text of changed files as far as it was asked for."""

    def __init__(self, repository: Repository, good: Commit, bad: Commit) -> None:
        self._repository, self._commits = repository, (good, bad)
        self._texts: dict[str, tuple[str, str]] = {}
        files = parse_patch(repository.patch(good, bad))
        self.dependencies = tuple(one.path for one in files if self._is_dependency(one))
        self.build = tuple(one.path for one in files if self._is_build(one))
        others = (_PROJECT, *_DEPENDENCIES, *_BUILD)
        self._files = [one for one in files if not one.is_submodule and not _matches(one.path, others)]

    def matches(self, case: str, native: bool, part: Candidate) -> Iterator[Match]:
        """The files of the strongest claim about a function; none for one that has no name to look for."""
        sources = [file for name in (part.name, part.was, *part.merged) if (file := source_file_of(name))]
        if sources:
            yield from self._in_files(case, part.name, sources)
            return
        names = {bare_name(name) for name in (part.name, part.was, *part.merged)}
        names = {name for name in names if len(name) >= SHORTEST_NAME}
        if not names:
            return
        files, located = self._of(native, part)
        claims = {file.path: self._claim(file, part, names, located) for file in files}
        for how in _WORDS:
            found = [path for path, claim in claims.items() if claim == how]
            yield from (Match(case, part.name, path, how) for path in found)
            if found:
                return

    def _in_files(self, case: str, function: str, sources: Sequence[str]) -> Iterator[Match]:
        """Of code without symbols only its source file is known, by a path as the compiler was given it."""
        paths = [PurePosixPath(source).parts for source in sources]
        for one in self._files:
            if any(_ends_alike(path, PurePosixPath(one.path).parts) for path in paths):
                yield Match(case, function, one.path, "in")

    def _of(self, native: bool, part: Candidate) -> tuple[Sequence[ChangedFile], bool]:
        """The files that a function can be in, or be called in; and whether it can be defined there. Where its own file
        is known, and not among those that changed, only lines that name it are found."""
        files = [one for one in self._files if not (native and one.path.endswith(".py"))]
        found = _WHERE.match(part.where)
        if found is None and native:
            return files, True
        path = PurePosixPath(found[1] if found else "").parts
        near = [
            one
            for one in files
            if (path and _ends_alike(path, PurePosixPath(one.path).parts))
            or (not native and _is_module_of(one, part.name))
        ]
        if part.name.startswith(CODE_OF):  # by its own name, of which that file is known to be right
            return near, True
        return near or files, bool(near)

    def _claim(self, file: ChangedFile, part: Candidate, names: set[str], located: bool) -> How | None:
        word = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
        is_named = any(word.search(line) for hunk in file.hunks for line in hunk.lines)
        if not located:
            return "named" if is_named else None
        versions = [function_ranges(text) for text in self._text(file)] if file.path.endswith(".py") else []
        parsed = [one for one in versions if one is not None]
        if len(parsed) == 2:
            known = (part.name, part.was or part.name, *part.merged)
            changed, defined = _in_python(file, known, *parsed)
            return "changed" if changed else "named" if is_named else "in" if defined else None
        if any(changes_function(hunk, word.pattern) for hunk in file.hunks):
            return "changed"
        if is_named or len(self._files) > MOST_FILES:
            return "named" if is_named else None
        lines = (line for text in self._text(file) for line in text.split("\n"))
        return "in" if any(word.search(line) and defines(line, word.pattern) for line in lines) else None

    def _text(self, file: ChangedFile) -> tuple[str, str]:
        """Both versions; empty where there is none, or it is too large."""
        if file.path not in self._texts:
            before, after = (
                self._repository.content(commit, path) or b""
                for commit, path in zip(self._commits, (file.was, file.path), strict=True)
            )
            self._texts[file.path] = _decoded(before), _decoded(after)
        return self._texts[file.path]

    def _is_dependency(self, file: ChangedFile) -> bool:
        if file.is_submodule or _matches(file.path, _DEPENDENCIES):
            return True
        return _matches(file.path, [_PROJECT]) and _differs(self._text(file), _required)

    def _is_build(self, file: ChangedFile) -> bool:
        if file.is_submodule or not _matches(file.path, [_PROJECT]):
            return not file.is_submodule and _matches(file.path, _BUILD)
        return _differs(self._text(file), _compiled)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace") if len(content) <= LARGEST_FILE else ""


def _differs(texts: tuple[str, str], part: Any) -> bool:
    """Whether a part of a project file differs; True, too, where one of them can't be read."""
    try:
        before, after = (part(tomllib.loads(text)) for text in texts)
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError):
        return True
    return bool(before != after)


def _required(project: Mapping[str, Any]) -> list[Any]:
    """What it needs, to be built and to run."""
    data = project.get("project", {})
    own = project.get("tool", {}).get("poetry", {}).get("dependencies")
    return [project.get("build-system", {}).get("requires"), data.get("dependencies"), own]


def _compiled(project: Mapping[str, Any]) -> list[Any]:
    """How it is built."""
    system = {key: value for key, value in project.get("build-system", {}).items() if key != "requires"}
    tools = {name: dict(project.get("tool", {}).get(name, {})) for name in _BACKENDS}
    tools["poetry"].pop("dependencies", None)
    return [system, tools]


def _in_python(
    file: ChangedFile, names: Sequence[str], before: Mapping[str, range], after: Mapping[str, range]
) -> tuple[bool, bool]:
    """Whether changed lines lie in a function with one of the names, and whether there is one; ``before`` and ``after``
    have the functions of either version."""
    old, new = (
        [lines for own, lines in version.items() if any(_is_called(name, own) for name in names)]
        for version in (before, after)
    )
    changed = any(_overlap(hunk.before, lines) for hunk in file.hunks for lines in old)
    changed = changed or any(_overlap(hunk.after, lines) for hunk in file.hunks for lines in new)
    return changed, bool(old or new)


def _overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _is_module_of(file: ChangedFile, name: str) -> bool:
    """Whether a file can be the module of a function with that dotted name."""
    path = PurePosixPath(file.path)
    module = path.parent.name if path.stem == "__init__" else path.stem
    return path.suffix == ".py" and module in name.split(".")[:-1]


def _is_called(full: str, name: str) -> bool:
    """Whether ``numpy.lib.Table.rows``, or what has no name in there (``<listcomp>``), can be the function
    ``Table.rows`` of a file."""
    parts, own = [part for part in full.split(".") if not part.startswith("<")], name.split(".")
    return parts[-len(own) :] == own


def _ends_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the shorter path is the end of the longer one."""
    shorter, longer = sorted((one, other), key=len)
    return tuple(longer[-len(shorter) :]) == tuple(shorter)


def bare_name(name: str) -> str:
    """A function's name alone: ``void lib::op::Sum<float>(int*)`` is ``Sum``, ``numpy.linalg.solve`` is ``solve``;
    empty for what has none, such as ``libc.so (no symbols)``."""
    if "(no symbols)" in name or name.startswith("("):
        return ""
    depth, kept = 0, ""
    for char in without_clone(name).replace("(anonymous namespace)", "anonymous").replace(".<locals>", ""):
        depth += char in "<("
        kept += char if depth == 0 else ""
        depth -= char in ">)"
    words = [word for word in kept.split() if word not in ("const", "volatile", "&", "&&")]
    found = re.match(r"[A-Za-z_]\w*", _QUALIFIER.split(words[-1])[-1]) if words else None
    return found[0] if found else ""
