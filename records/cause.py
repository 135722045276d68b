"""Why a case changed: what was looked at on both sides, what differs there, and its share of the change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from opduel.records.measurement import Side

# What is looked at: a source. Each has one unit, in which its parts add up to the whole of a call, or nearly so.
Source = Literal[
    "native functions", "mispredicted branches", "code placement", "sampled functions", "Python functions", "operators",
    "kernels", "primitives", "resources", "allocations", "mapped memory", "simulated cache misses", "libraries",
]  # fmt: skip
CODE_OF = "code without symbols of "  # a source file, a class, or an exported function, is said after it
# Of a native function, what it mostly works on; a size in bytes follows the second.
ONE_BY_ONE, VECTORS = "one element at a time", "vectors of "
# In a note, beside figures whose own difference is not clear.
OF_MEASURED = "shares are of what a call's time changed by as measured: in these process pairs that is not clear"
UNEXPLAINED = "not explained by anything that was looked at"
MOST_CHANGED = 3  # changed functions that are named where nothing accounts for a change
ELSEWHERE = "where it was"  # in a note on code placement: the same code, at another place of a line
NO_AVX512 = "valgrind shows this processor without AVX-512: code for it is not seen"  # in a note on native functions
_SOURCE_FILE = re.compile(rf"{CODE_OF}([\w./+-]+(?:\.(?:cc|cpp|cxx|c|cu|C)|-inl\.h))$")
_CLONE = re.compile(r"(?:\.(?:constprop|isra|part|cold|lto_priv|llvm|clone)(?:\.\d+)*|@plt| ?\[clone [^\]]*\])+$")


@dataclass(frozen=True)
class Part:
    """One part of a call, as one process saw it: ``amount`` per call in the source's unit, without that of the parts
    that it calls.

    ``calls``: how often a call of the case runs it, where that is known. ``where``: a file and line, or the library.
    ``called_at``: the file and line that calls it most often, and ``inclusive``: ``amount`` with those of the parts
    that it calls, where they are known.
    ``callers``: name of a part that calls it -> its share of this part's amount, where that is known.
    ``implementation``: which of a library's implementations of it ran, or whether a function works on vectors, where
    that is known.
    ``doubt``: by how much ``amount`` may be too large in all processes alike, or too small, because of how it is seen;
    ``inclusive_doubt`` is the same of ``inclusive``.
    ``was``: the name that this side has for it, where its part goes by that of the other side.
    ``code``: a fingerprint of what it does, of a function in Python, where that is known: the same on both sides if the
    code is.
    """

    amount: float
    calls: float | None = None
    where: str = ""
    callers: Mapping[str, float] = field(default_factory=dict)
    called_at: str = ""
    inclusive: float | None = None
    implementation: str = ""
    doubt: float = 0.0
    inclusive_doubt: float = 0.0
    was: str = ""
    code: str = ""


Observation = Mapping[Side, Mapping[str, Part]]  # what one process pair saw: side -> name -> part


@dataclass(frozen=True)
class Candidate:
    """A part of a call that differs between the sides: a function, an operator, a primitive, a resource."""

    name: str
    """on the treatment, if the sides differ"""
    control: float
    """amount per call in the examination's ``unit``, without what it calls"""
    treatment: float
    share: float | None = None
    """of the examination's difference; above 1 where others make up for it, negative where it went the other way"""
    ci: tuple[float, float] | None = None
    """interval of ``share`` for all candidates of the examination together: 95 %, or 99.8 % where the note says that
    shares are of the measured change"""
    calls: tuple[float | None, float | None] = (None, None)
    """how often one call of the case runs it on each side; of allocations their number, of mapped memory its pages"""
    where: str = ""
    """file and line, or the library"""
    was: str = ""
    """its name on the control, if that is another"""
    merged: tuple[str, ...] = ()
    """functions of one side alone whose amount is counted here: inlined, split or joined"""
    implementations: tuple[str, str] = ("", "")
    """of a primitive, the library's implementation on each side (``jit:avx512_core``); of a native function, what it
    works on (``vectors of 16 bytes``)"""
    caller: str = ""
    """of a native function that is called more or less often: the function that makes most of these calls"""

    @property
    def difference(self) -> float:
        """Treatment less control, per call."""
        return self.treatment - self.control


@dataclass(frozen=True)
class Frame:
    """One frame of a differential flame graph, depth first. Frames below 0.2 % of the call are left out, and the
    smallest of more than 400."""

    name: str
    """the function; of the outermost frame ``a call``"""
    depth: int
    """0 for the whole call; a frame belongs to the last one before it that is less deep"""
    control: float
    """amount per call in the examination's ``unit``, with the frames within"""
    treatment: float


@dataclass(frozen=True)
class Examination:
    """What one source showed of a case in fresh process pairs."""

    source: str
    """one of ``Source``: ``native functions``, ``Python functions``, ``operators``, ``resources``, ``libraries``..."""
    unit: str
    """of the amounts: ``instructions``, ``ns``, ``count``, ``bytes``; empty for libraries and code placement"""
    pairs: int
    """process pairs that were examined"""
    control: float | None = None
    """the whole amount per call, mean over the pairs; null if nothing was seen"""
    treatment: float | None = None
    difference_ci: tuple[float, float] | None = None
    """95 % interval of ``treatment`` - ``control``; null with fewer than 3 pairs"""
    candidates: tuple[Candidate, ...] = ()
    """parts that differ, the largest difference first"""
    explained: float | None = None
    """share of the difference of the candidates whose share is clear of 0; null if the difference is not clear of 0"""
    note: str = ""
    """why nothing was seen, or what limits the figures; of libraries and code placement, what differs"""
    flame: tuple[Frame, ...] = ()
    """the call as a tree of its largest frames, if the source knows callers"""
    changed: Mapping[str, str] = field(default_factory=dict)
    """Python functions that a call runs on both sides, and whose code differs: name -> file and line"""


@dataclass(frozen=True)
class Cause:
    """Why a case changed, examined after all measuring. It never influences a verdict."""

    sentence: str
    """one line for people; also in the case's ``note``, without what was seen where nothing explains the change"""
    examinations: tuple[Examination, ...] = ()
    """one for each source that the case and the host allow"""

    @property
    def words(self) -> str:
        """What the case's note says of it: of a change that isn't explained no list of what was seen."""
        if self.is_explained or "; " not in self.sentence:
            return f"cause: {self.sentence}"
        what_changed = self.changed_words
        return "; ".join(filter(None, (f"cause: {UNEXPLAINED} (opduel explain shows what was)", what_changed)))

    @property
    def changed_words(self) -> str:
        """Name the functions that a call runs and whose code differs; empty if that is none, or more than a few."""
        places = {name: place for examination in self.examinations for name, place in examination.changed.items()}
        if not 0 < len(places) <= MOST_CHANGED:
            return ""
        named = ", ".join(f"{name} ({place})" if place else name for name, place in places.items())
        return f"changed and run by this case: {named}"

    @property
    def is_explained(self) -> bool:
        """Tell whether the sentence claims what accounts for the change, or for a part of it."""
        return not self.sentence.startswith("not explained")


def without_clone(name: str) -> str:
    """Return a function's name without the suffix of a compiler's clone: ``.constprop.0``, ``.isra.0``, ``.cold``."""
    return _CLONE.sub("", name)


def source_file_of(name: str) -> str | None:
    """Return the source file in the name of a part of code without symbols; None if the name has none."""
    match = _SOURCE_FILE.match(name)
    return match[1] if match else None
