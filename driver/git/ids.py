"""The ids by which people know commits, where a repository was converted: Mercurial's, for git's."""

import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])")
_LINE = re.compile(r"([0-9a-f]{40}) ([0-9a-f]{40})\n")


class ConvertedIds:
    """Pairs of ids, one a line in a file that only grows: the original's, and that of our commit."""

    def __init__(self, path: Path) -> None:
        """Read the file; a last line that a kill cut short is removed from it."""
        self._path = path
        text = path.read_text(encoding="ascii", errors="replace") if path.exists() else ""
        pairs = _LINE.findall(text)
        self._ours: dict[str, str] = dict(pairs)
        self._theirs: dict[str, str] = {ours: theirs for theirs, ours in pairs}
        end = text.rfind("\n") + 1
        if end < len(text):
            log.info("%s: the last line is incomplete: dropped", path)
            os.truncate(path, end)

    def __contains__(self, original: str) -> bool:
        return original in self._ours

    def ours(self, text: str) -> str:
        """Return a text with our ids in the place of the original ones."""
        return _ID.sub(lambda match: self._ours.get(str(match[0]), str(match[0])), text)

    def original(self, ours: str) -> str:
        """Return the original id of a commit of ours; a commit that was not converted keeps its own."""
        return self._theirs.get(ours, ours)

    def beginning(self, prefix: str) -> list[str]:
        """Return the only original id that begins so; none if there are several."""
        ids = [id for id in self._ours if id.startswith(prefix)]
        return ids if len(ids) == 1 else []

    def add(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Add further pairs (original, ours), in the file first."""
        new = list(pairs)
        with self._path.open("a", encoding="ascii") as file:
            file.writelines(f"{theirs} {ours}\n" for theirs, ours in new)
            file.flush()
            os.fsync(file.fileno())
        self._ours.update(new)
        self._theirs.update((ours, theirs) for theirs, ours in new)
