"""A patch as git prints it, without context: which lines of which files it changes."""

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_SUBMODULE = re.compile(r"(?:new file mode|deleted file mode|new mode) 160000$|index \w+\.\.\w+ 160000$")


@dataclass(frozen=True)
class Hunk:
    """Neighbouring lines that changed. ``before`` and ``after`` are their line numbers, from 1 on, in either version;
    one of them is empty where lines were only added or only removed. ``heading``: the line above them that git takes
    for the beginning of what they are in."""

    before: range
    after: range
    heading: str
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)

    @property
    def lines(self) -> Sequence[str]:
        """All lines that changed, those of the older version first."""
        return [*self.removed, *self.added]


@dataclass
class ChangedFile:
    """One file of a patch; ``was`` is its path before. A binary file has no hunks."""

    path: str
    was: str
    is_submodule: bool = False
    hunks: list[Hunk] = field(default_factory=list)


def parse_patch(patch: str) -> list[ChangedFile]:
    """Parse the files of a patch as ``git diff-tree --patch --unified=0`` prints it."""
    files: list[ChangedFile] = []
    # Lines of the present hunk that are still to come: git counts them, so that no line is taken for a header.
    remaining = 0
    for line in patch.split("\n"):
        if remaining and line.startswith(("+", "-")):
            hunk = files[-1].hunks[-1]
            (hunk.added if line[0] == "+" else hunk.removed).append(line[1:])
            remaining -= 1
        elif line.startswith("diff --git "):
            files.append(ChangedFile(*_paths(line.removeprefix("diff --git "))))
        elif not files:
            continue
        elif _SUBMODULE.match(line):
            files[-1].is_submodule = True
        elif line.startswith("rename from "):
            files[-1].was = _unquoted(line.removeprefix("rename from "))
        elif line.startswith("rename to "):
            files[-1].path = _unquoted(line.removeprefix("rename to "))
        elif match := _HUNK.match(line):
            before, after = _lines(match[1], match[2]), _lines(match[3], match[4])
            files[-1].hunks.append(Hunk(before, after, match[5]))
            remaining = len(before) + len(after)
    return files


def _paths(both: str) -> tuple[str, str]:
    """Return the paths after and before, of a header's ``a/PATH b/PATH``: equal but where a file was renamed, which
    further lines say."""
    if both.startswith('"'):
        before = re.match(r'"(?:[^"\\]|\\.)*"', both)
        first = before[0] if before else both
        return _unquoted(both[len(first) + 1 :]).removeprefix("b/"), _unquoted(first).removeprefix("a/")
    middle = len(both) // 2
    if both[middle : middle + 3] == " b/" and both[2:middle] == both[middle + 3 :]:
        return both[middle + 3 :], both[2:middle]
    first, _, second = both.partition(" b/") if '"' not in both else both.partition(' "b/')
    return _unquoted(f'"{second}') if second.endswith('"') else second, first.removeprefix("a/")


def _unquoted(path: str) -> str:
    """Return a path that git wrote in quotation marks, with escapes as C has them, or as it is."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path
    return codecs.escape_decode(path[1:-1].encode("utf-8", "surrogateescape"))[0].decode("utf-8", "surrogateescape")


def _lines(first: str, count: str | None) -> range:
    """Return the lines of one side, as a hunk's header has them."""
    return range(int(first), int(first) + (1 if count is None else int(count)))
