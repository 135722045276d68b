"""A patch as git prints it, without context: which lines of which files it changes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
_SUBMODULE = "160000"  # as a mode


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


@dataclass(frozen=True)
class ChangedFile:
    """One file of a patch; ``was`` is its path before. A binary file has no hunks."""

    path: str
    was: str
    is_submodule: bool
    hunks: Sequence[Hunk]


def parse_patch(patch: str) -> list[ChangedFile]:
    """Parse the files of a patch as ``git diff-tree --raw --patch -z --unified=0`` prints it."""
    raw, _, text = patch.partition("\0\0")  # entries, and in the same order a section of the patch for each
    words = iter(raw.split("\0"))
    sections = iter(text.removeprefix("diff --git ").split("\ndiff --git "))
    files: list[ChangedFile] = []
    for entry in words:
        if not entry:
            continue
        before, after, _, _, status = entry.removeprefix(":").split()
        was = path = next(words)
        if status[0] in "RC":
            path = next(words)
        # What became something else, such as a link a file, has two sections: it was removed, and added.
        modes = [(before,), (after,)] if status == "T" else [(before, after)]
        files += [ChangedFile(path, was, _SUBMODULE in mode, _hunks(next(sections))) for mode in modes]
    return files


def _hunks(section: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    for line in section.split("\n"):
        if match := _HUNK.match(line):
            hunks.append(Hunk(_lines(match[1], match[2]), _lines(match[3], match[4]), match[5]))
        elif hunks and line.startswith("-"):
            hunks[-1].removed.append(line[1:])
        elif hunks and line.startswith("+"):
            hunks[-1].added.append(line[1:])
    return hunks


def _lines(first: str, count: str | None) -> range:
    return range(int(first), int(first) + (1 if count is None else int(count)))
