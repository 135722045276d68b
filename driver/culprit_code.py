"""What a culprit changed of what the causes name: its lines compared with their functions, and what it changed besides.

Only names and lines are compared.  A function that the commit's changed lines lie in, or name, was changed by it; of
one that is merely in a file that it changed, no more than that is said.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Literal

from opduel.driver.git.repository import Repository
from opduel.records import Candidate, Cause, Commit
from opduel.records.cause import without_clone

FUNCTIONS = ("native functions", "Python functions")  # the sources whose parts have code
MOST_FILES = 200  # changed files that are searched for a function's name; a larger change says little
LARGEST_FILE = 4_000_000  # bytes
SHORTEST_NAME = 3  # characters: a shorter one is found everywhere

_DEPENDENCIES = ("requirements*.txt", "*.lock", "environment*.y*ml", "vcpkg.json", "conanfile.*", ".gitmodules")
_BUILD = (
    *("CMakeLists.txt", "*.cmake", "meson.build", "meson.options", "meson_options.txt", "Makefile", "*.mk", "*.bzl"),
    *("BUILD", "BUILD.bazel", "WORKSPACE", "configure", "configure.ac", "pyproject.toml", "setup.py", "setup.cfg"),
    *("Dockerfile*", "*.Dockerfile"),
)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_SUBMODULE = re.compile(r"(?:new|deleted) file mode 160000$|index \w+\.\.\w+ 160000$")
_WHERE = re.compile(r"(.+?):\d+$")
_QUALIFIER = re.compile(r"(?:::|\.)(?=[A-Za-z_])")


@dataclass(frozen=True)
class Match:
    """A function in a case's cause that the culprit has to do with. ``how``: its lines were "changed", or it is "in" a
    file that was."""

    case: str
    function: str
    file: str
    how: Literal["changed", "in"]


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


@dataclass
class _File:
    """What a patch changes of one file: ``hunks`` are the headings and changed lines of each."""

    path: str
    was: str
    is_submodule: bool = False
    hunks: list[str] = field(default_factory=list)

    @property
    def is_code(self) -> bool:
        return not self.is_submodule and not any(_matches(self.path, group) for group in (_DEPENDENCIES, _BUILD))


def changed_code(repository: Repository, good: Commit, bad: Commit, causes: Mapping[str, Cause]) -> ChangedCode:
    """What lies between two commits, the last good one and the first bad one, compared with the causes of cases.

    Raises:
        RunError: git can't tell.
    """
    files = parse_patch(repository.patch(good, bad))
    code = _Code(repository, (bad, good), [one for one in files if one.is_code])
    parts = {case: list(_functions_of(cause)) for case, cause in causes.items()}
    return ChangedCode(
        matches=tuple(match for case, found in parts.items() for part in found for match in code.matches(case, part)),
        looked_at=tuple(case for case, found in parts.items() if found),
        dependencies=tuple(one.path for one in files if one.is_submodule or _matches(one.path, _DEPENDENCIES)),
        build=tuple(one.path for one in files if not one.is_submodule and _matches(one.path, _BUILD)),
    )


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
    """In words, a line each."""
    for how, words in (("changed", "changed in the culprit"), ("in", "in a file that the culprit changed")):
        files: dict[str, dict[str, None]] = {}
        for one in code.matches:
            if one.how == how:
                files.setdefault(one.file, {})[one.function] = None
        for file, functions in files.items():
            yield f"{words}: {file} ({', '.join(functions)})"
    if code.looked_at and not code.matches:
        yield "no function in the cause is in a file that the culprit changed"
    if code.dependencies:
        yield f"the culprit changes dependencies: {', '.join(code.dependencies)}"
    if code.build:
        yield f"the culprit changes how the library is built: {', '.join(code.build)}"


def parse_patch(patch: str) -> list[_File]:
    """The files of a patch as ``git diff-tree --patch --unified=0`` prints it; those of binary files have no hunks."""
    files: list[_File] = []
    for line in patch.splitlines():
        if line.startswith("diff --git "):
            before, _, after = line[len("diff --git ") :].partition(" b/")
            files.append(_File(after, before.removeprefix("a/")))
        elif not files:
            continue
        elif line.startswith(("new file mode 160000", "deleted file mode 160000")) or re.match(
            r"index .* 160000$", line
        ):
            files[-1].is_submodule = True
        elif line.startswith("rename from "):
            files[-1].was = line.removeprefix("rename from ")
        elif found := _HUNK.match(line):
            files[-1].hunks.append(found[5])
        elif files[-1].hunks and line.startswith(("+", "-")):
            files[-1].hunks[-1] += f"\n{line[1:]}"
    return files


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(PurePosixPath(path).name, pattern) for pattern in patterns)


def _functions_of(cause: Cause) -> Iterable[Candidate]:
    """The functions that account for a part of the change, clear of 0."""
    for seen in cause.examinations:
        if seen.source in FUNCTIONS:
            yield from (one for one in seen.candidates if one.ci and (one.ci[0] > 0 or one.ci[1] < 0))


class _Code:
    """The changed files that hold code, with their text as far as it was asked for."""

    def __init__(self, repository: Repository, commits: Sequence[Commit], files: Sequence[_File]) -> None:
        self._repository, self._commits, self._files = repository, commits, files
        self._texts: dict[str, str] = {}

    def matches(self, case: str, part: Candidate) -> Iterable[Match]:
        """Where the commit changes a function, and else where it changes a file that has it; nothing for what can't be
        told by its name."""
        names = {bare_name(name) for name in (part.name, part.was, *part.merged)}
        names = {name for name in names if len(name) >= SHORTEST_NAME}
        if not names:
            return
        word = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
        files = self._of(part.where)
        changed = [one for one in files if any(map(word.search, one.hunks))]
        how: Literal["changed", "in"] = "changed" if changed else "in"
        if not changed and len(files) <= MOST_FILES:
            changed = [one for one in files if word.search(self._text(one))]
        for one in changed:
            yield Match(case, part.name, one.path, how)

    def _of(self, where: str) -> Sequence[_File]:
        """The files that a part's ``where`` can be in: those whose path ends as it does, if any; else all."""
        found = _WHERE.match(where)
        path = PurePosixPath(found[1] if found else where).parts
        return [one for one in self._files if path and _ends_alike(path, PurePosixPath(one.path).parts)] or self._files

    def _text(self, file: _File) -> str:
        if file.path not in self._texts:
            paths = zip(self._commits, (file.path, file.was), strict=True)
            contents = (self._repository.content(commit, path) for commit, path in paths)
            text = next((content for content in contents if content is not None), b"")
            self._texts[file.path] = text.decode("utf-8", "replace") if len(text) <= LARGEST_FILE else ""
        return self._texts[file.path]


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
