"""Why a case changed: what was looked at on both sides, what differs there, and its share of the change."""

import re
from collections.abc import Mapping, Sequence
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
    """A part of a call that differs between the sides: a function, an operator, a primitive, a resource.

    ``control`` and ``treatment`` are amounts per call, in the unit of the examination (means over process pairs).
    ``calls`` says how often a call of the case runs it on either side, where that is known.  ``share`` is its part of
    the examination's whole difference (1 = all of it; above 1 where others make up for it; negative where it changed
    the other way), and ``ci`` the interval of that share over process pairs, at 95 % for all candidates of the
    examination together, wider by what is doubtful in all pairs alike; both None where the whole difference is not
    clear of 0.

    ``name`` is that of the treatment, ``was`` that of the control where it is another.  ``merged`` names functions that
    exist on one side alone and whose amount is counted here: inlined, split, or joined.  ``implementations`` says which
    of a library's implementations of a primitive ran on the control and on the treatment, and of a native function
    whether it works on vectors there; empty where that isn't known.  ``caller`` is, of a native function that is called
    more or less often, the function that makes most of the calls that came or went, where that is known.
    """

    name: str
    control: float
    treatment: float
    share: float | None = None
    ci: tuple[float, float] | None = None
    calls: tuple[float | None, float | None] = (None, None)
    where: str = ""
    was: str = ""
    merged: Sequence[str] = field(default_factory=tuple)
    implementations: tuple[str, str] = ("", "")
    caller: str = ""

    @property
    def difference(self) -> float:
        """Treatment less control, per call."""
        return self.treatment - self.control


@dataclass(frozen=True)
class Frame:
    """One frame of a call's tree, as flame graphs draw it: a function where it is called from the frames around it.

    ``control`` and ``treatment`` are amounts per call in the examination's unit, with those of the frames within (means
    over process pairs). A tree is a sequence of frames, depth first; ``depth`` is 0 for the whole call.
    """

    name: str
    depth: int
    control: float
    treatment: float


@dataclass(frozen=True)
class Examination:
    """What one source saw of a case, over ``pairs`` fresh process pairs.

    ``control`` and ``treatment`` are the whole amounts per call in ``unit`` ("instructions", "ns", "bytes", "count"),
    means over pairs; ``difference_ci`` is the 95 % interval of treatment less control.  ``explained`` is the share of
    the difference that the ``candidates`` account for together, those whose own share is clear of 0.  Without figures,
    ``note`` says why there are none; beside figures it says what limits them (no symbols, inlined functions).  Of
    libraries and code placement there are no figures: ``note`` says what differs between the sides.  ``flame`` is the
    call as a tree of its largest frames, where the source knows callers.
    """

    source: str  # a ``Source``; later versions may have others
    unit: str
    pairs: int
    control: float | None = None
    treatment: float | None = None
    difference_ci: tuple[float, float] | None = None
    candidates: Sequence[Candidate] = field(default_factory=tuple)
    explained: float | None = None
    note: str = ""
    flame: Sequence[Frame] = field(default_factory=tuple)


@dataclass(frozen=True)
class Cause:
    """Why a case changed. ``sentence`` is one line for people; it says "not explained" where nothing was found."""

    sentence: str
    examinations: Sequence[Examination] = field(default_factory=tuple)

    @property
    def words(self) -> str:
        """What the case's note says of it."""
        return f"cause: {self.sentence}"


def without_clone(name: str) -> str:
    """A function's name without what a compiler adds to its clones: ``.constprop.0``, ``.isra.0``, ``.cold``."""
    return _CLONE.sub("", name)


def source_file_of(name: str) -> str | None:
    """The source file that code without symbols is of, by the name of its part; None if that says no file."""
    found = _SOURCE_FILE.match(name)
    return found[1] if found else None
