"""Compare the installed files of two builds, and find the cases that the difference can reach.

A case that runs no function with another source, and imports no file whose other code differs, does the same on both
builds. Where names come or go (functions, imports, constants), a lookup may find something else: then the functions
that the case runs on the treatment must also be those that it runs on the control.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from opduel.driver.module_code import ModuleCode, compare_modules
from opduel.records.reach import Reach
from opduel.records.run_record import UNKNOWN

PACKAGE_FILE = "__init__.py"
# Files from which nothing is executed, nor read.
_WITHOUT_EFFECT = re.compile(r".*\.(pyi|pyc|pyx|pxd|pxi|md|rst)|(.*/)?(py\.typed|meson\.build)")
_METADATA = re.compile(r"([^/-]+)-[^/]*\.(?:dist|egg)-info/(.*)")
_ENTRY_POINTS = "entry_points.txt"
_EXTENSION = re.compile(r"(?:.*/)?([^/.]+)\.(?:cpython-[\w-]+|abi3)\.so")  # a module that Python imports by itself
_SOURCE = re.compile(r"(?:.*/)?([^/.]+)\.(?:c|cc|cpp|cxx)")


@dataclass(frozen=True)
class CodeDifference:
    """What differs between two builds, by paths below their site-packages.

    ``parts``: all of it, for a reader. ``functions``: ``path:name`` of functions with another source, or on one side
    alone. ``files``: by path of a module, what reaches all that imports it: itself, if other code than functions
    differs, or data in its package. ``lookups``: modules in which one side alone has a name or file; empty for one
    that any module may import. ``everything``: what can reach every case.
    """

    parts: Sequence[str]
    functions: frozenset[str]
    files: Mapping[str, Sequence[str]]
    lookups: frozenset[str]
    everything: Sequence[str]
    control: "Installed"
    treatment: "Installed"

    def reason(self, reach: Reach) -> str | None:
        """Return what reaches a case, by what is known of what it does on the control; None if nothing does."""
        changed = self.functions & {self.control.named(place) for place in reach.functions | reach.imported}
        reason = min(self.everything, default=None) or min(changed, default=None) or self._imported(reach)
        return reason or (f"{UNKNOWN}{reach.unknown}" if reach.unknown else None)

    def cannot_reach(self, reach: Reach) -> bool:
        """Tell whether a case provably does the same on both sides, by what it does on the control alone."""
        return self.reason(reach) is None and not self.needs_treatment(reach)

    def needs_treatment(self, reach: Reach) -> bool:
        """Tell whether the case might find a name or file that one side alone has: then look at the treatment, too."""
        return "" in self.lookups or not self.lookups.isdisjoint(reach.modules)

    def reason_on_both(self, control: Reach, treatment: Reach) -> str | None:
        """Return what a case does on one side alone; None if it does the same on both."""
        if treatment.unknown:
            return f"{UNKNOWN}{treatment.unknown}"
        ours = {self.control.named(place) for place in control.functions}
        theirs = {self.treatment.named(place) for place in treatment.functions}
        return min(ours ^ theirs, default=None) or self._imported(treatment)

    def _imported(self, reach: Reach) -> str | None:
        return min((path for module in self.files.keys() & reach.modules for path in self.files[module]), default=None)


class Installed:
    """A build's Python files that differ from another's."""

    def __init__(self, root: Path, changes: Mapping[str, bytes | None] = MappingProxyType({})) -> None:
        """``changes``: files that are to have another content than below ``root``; None for a removed one."""
        self.root, self._changes = root, changes
        self._code: dict[str, ModuleCode | None] = {}
        self._names: dict[str, str] = {}

    def has(self, path: str) -> bool:
        """Tell whether there is such a file."""
        return self._changes[path] is not None if path in self._changes else (self.root / path).is_file()

    def read(self, path: str) -> ModuleCode | None:
        """Return a file's code, empty if there is no such file; None if this Python can't parse it."""
        content = self._changes.get(path)
        if content is None and self.has(path):
            content = (self.root / path).read_bytes()
        self._code[path] = ModuleCode() if content is None else ModuleCode.of(content)
        return self._code[path]

    def named(self, place: str) -> str:
        """Return ``path:name`` of the function at ``path:line``; of a file that doesn't differ, the place itself."""
        if place not in self._names:
            path, _, line = place.rpartition(":")
            code = self._code.get(path)
            self._names[place] = place if code is None else f"{path}:{code.name_at(int(line))}"
        return self._names[place]


def compare_installed(control: Path, treatment: Path) -> CodeDifference:
    """Compare two folders site-packages. Raise OSError if a file can't be read."""
    ours, theirs = _files(control), _files(treatment)
    paths = sorted(ours.keys() | theirs.keys())
    extensions = {_module_of(match) for match in map(_EXTENSION.fullmatch, paths) if match}
    differing = [path for path in paths if not (path in ours and path in theirs and _is_same(ours[path], theirs[path]))]
    sources = {path for path in differing if (match := _SOURCE.fullmatch(path)) and _module_of(match) in extensions}
    # What was compiled of those sources counts.
    return _compare([path for path in differing if path not in sources], Installed(control), Installed(treatment))


def compare_changed(site: Path, changes: Mapping[str, bytes | None]) -> CodeDifference:
    """Compare a folder site-packages with itself after changes of Python files: path -> content, None for a removed
    one."""
    return _compare(sorted(changes), Installed(site), Installed(site, changes))


def _compare(differing: Sequence[str], ours: Installed, theirs: Installed) -> CodeDifference:
    """Compare two builds, of which these files differ."""
    parts: list[str] = []
    functions: set[str] = set()
    files: dict[str, list[str]] = {}
    lookups: set[str] = set()
    everything: list[str] = []
    for path in differing:
        is_in_both = ours.has(path) and theirs.has(path)
        owner = _package_of(path, ours.root)
        if path.endswith(".py"):
            change = compare_modules(path, ours.read(path), theirs.read(path))
            changed = sorted(f"{path}:{name}" for name in change.functions)
            parts += [path] if change.is_deeper or not is_in_both else changed or [path] * change.adds
            functions |= set(changed)
            if change.is_deeper:
                files.setdefault(path, []).append(path)
            lookups |= {path} if change.adds else set()
            lookups |= set() if is_in_both else {owner or ""}
            continue
        parts.append(path)
        if _EXTENSION.fullmatch(path):
            files.setdefault(path, []).append(path)
        elif owner is not None and ".so" not in path:
            files.setdefault(owner, []).append(path)
        else:
            everything.append(path)
    return CodeDifference(parts, frozenset(functions), files, frozenset(lookups), everything, ours, theirs)


def _module_of(match: re.Match[str]) -> tuple[str, str]:
    """Return the outermost package of a compiled module, or of its source, and its name."""
    return match[0].partition("/")[0], match[1]


def _files(root: Path) -> dict[str, Path]:
    """Return the files below the folder that may matter, by their paths there, without the version in metadata."""
    files = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in (Path(folder, name) for name in names):
            path = file.relative_to(root).as_posix()
            metadata = _METADATA.fullmatch(path)
            if metadata and metadata[2] == _ENTRY_POINTS:
                files[f"{metadata[1]}.dist-info/{_ENTRY_POINTS}"] = file
            elif not metadata and not _WITHOUT_EFFECT.fullmatch(path):
                files[path] = file
    return files


def _is_same(here: Path, there: Path) -> bool:
    """Tell whether two files have the same content: builds share most of theirs by hard links."""
    if here.samefile(there):
        return True
    return here.stat().st_size == there.stat().st_size and here.read_bytes() == there.read_bytes()


def _package_of(path: str, root: Path) -> str | None:
    """Return the ``__init__.py`` of the nearest package that a file lies in; None if there is none."""
    folders = (folder for folder in PurePosixPath(path).parents if folder.name)
    return next((f"{folder}/{PACKAGE_FILE}" for folder in folders if (root / folder / PACKAGE_FILE).is_file()), None)
