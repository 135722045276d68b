"""A reader of what massif writes of all memory that was allocated so far, by stack (``--xtree-memory=full``).

The files have callgrind's format (https://valgrind.org/docs/manual/manual-core.html, "Execution Trees"), one stack
after the other, from its outermost function on, with a blank line between them. Files have some ten MiB, nearly all of
which is what was allocated while libraries were imported: stacks that stand in both files alike are not looked at.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

BYTES, BLOCKS = b"totB", b"totBk"  # events: what was allocated until now, whether it was freed or not
UNKNOWN = "UnknownFn???"
_UNKNOWN_FILE = "UnknownFile???"
_EVENTS = re.compile(rb"^events: *(.*?) *$", re.M)
_FUNCTION = re.compile(rb"^c?fn=\((\d+)\) (.+)$", re.M)
_FILE = re.compile(rb"^(?:fl|fi|fe|cfi|cfl)=\((\d+)\) (.+)$", re.M)
_FRAME = re.compile(rb"^fl=\((\d+)\).*\nfn=\((\d+)\)", re.M)
_COSTS = re.compile(rb"\n\d+((?: \d+)+)\s*$")
_TOTALS = re.compile(rb"^totals:((?: \d+)+)\s*\Z", re.M)


class Function(NamedTuple):
    """A function of a stack, ``UNKNOWN`` where it has no symbol, and its file; empty where that isn't known."""

    name: str
    file: str


Stack = tuple[Function, ...]  # from the outermost function to the one that allocates


@dataclass(frozen=True)
class Allocated:
    """How many bytes, in how many blocks."""

    size: int
    blocks: int


def allocated_between(before: bytes, after: bytes) -> dict[Stack, Allocated]:
    """Return what was allocated between two files of one process, by stack, for stacks that allocated anything. Raises
    ValueError: not whole files of massif's, or not of one process in this order."""
    first, second = _Contents(before), _Contents(after)
    if first.functions.items() <= second.functions.items() and first.files.items() <= second.files.items():
        # short names mean the same in both files, so that equal stacks are equal texts
        first_texts, second_texts = Counter(first.stacks), Counter(second.stacks)
        first.stacks = list((first_texts - second_texts).elements())
        second.stacks = list((second_texts - first_texts).elements())
    (earlier_sizes, earlier_blocks), (sizes, blocks) = first.by_stack(), second.by_stack()
    sizes, blocks = sizes - earlier_sizes, blocks - earlier_blocks
    if sizes.total() != second.total - first.total:
        raise ValueError("the stacks don't come to what the totals say")
    return {stack: Allocated(sizes[stack], blocks[stack]) for stack in sizes | blocks}


class _Contents:
    """A file: its stacks as text, and what its short names stand for."""

    def __init__(self, text: bytes) -> None:
        events, totals = _EVENTS.search(text, 0, 4096), _TOTALS.search(text, max(0, len(text) - 4096))
        if not events or not {BYTES, BLOCKS} <= set(events[1].split()):
            raise ValueError("it doesn't name what it counts: not a file of massif's")
        if not totals:
            raise ValueError("it ends without totals: not a whole file of massif's")
        names = events[1].split()
        self._size, self._count = names.index(BYTES), names.index(BLOCKS)
        self.functions = dict(_FUNCTION.findall(text))
        self.files = dict(_FILE.findall(text))
        self.total = self._amounts(totals[1])[0]
        self.stacks = text[events.end() : totals.start()].split(b"\n\n")

    def _amounts(self, costs: bytes) -> tuple[int, int]:
        fields = costs.split()
        if len(fields) <= max(self._size, self._count):
            raise ValueError("a stack has fewer numbers than the file names")
        return int(fields[self._size]), int(fields[self._count])

    def by_stack(self) -> tuple[Counter[Stack], Counter[Stack]]:
        """Return how many bytes, and how many blocks, each stack allocated."""
        sizes, blocks = Counter[Stack](), Counter[Stack]()
        for text in filter(bytes.strip, self.stacks):
            costs = _COSTS.search(text)
            stack = tuple(_function(key, self.functions, file, self.files) for file, key in _FRAME.findall(text))
            if not costs or not stack:
                raise ValueError(f"not a stack of massif's: {text[:40]!r}")
            size, number = self._amounts(costs[1])
            sizes[stack] += size
            blocks[stack] += number
        return sizes, blocks


def _function(key: bytes, functions: Mapping[bytes, bytes], file: bytes, files: Mapping[bytes, bytes]) -> Function:
    if key not in functions or file not in files:
        raise ValueError(f"a name that is not defined: {(key if key not in functions else file).decode()}")
    place = files[file].decode("utf-8", "replace")
    return Function(functions[key].decode("utf-8", "replace"), "" if place == _UNKNOWN_FILE else place)
