"""A patch as git prints it, without context: which lines of which files it changes."""

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
    """The files of a patch as ``git diff-tree --patch --unified=0`` prints it."""
    files: list[ChangedFile] = []
    left = 0  # lines of the present hunk that are still to come; git counts them, so that no line is taken for a header
    for line in patch.split("\n"):
        if left and line.startswith(("+", "-")):
            hunk = files[-1].hunks[-1]
            (hunk.added if line[0] == "+" else hunk.removed).append(line[1:])
            left -= 1
        elif line.startswith("diff --git "):
            before, _, after = line.removeprefix("diff --git ").partition(" b/")
            files.append(ChangedFile(after, before.removeprefix("a/")))
        elif not files:
            continue
        elif _SUBMODULE.match(line):
            files[-1].is_submodule = True
        elif line.startswith("rename from "):
            files[-1].was = line.removeprefix("rename from ")
        elif found := _HUNK.match(line):
            before_it, after_it = _lines(found[1], found[2]), _lines(found[3], found[4])
            files[-1].hunks.append(Hunk(before_it, after_it, found[5]))
            left = len(before_it) + len(after_it)
    return files


def _lines(first: str, count: str | None) -> range:
    """The lines of one side, as a hunk's header has them."""
    return range(int(first), int(first) + (1 if count is None else int(count)))
