"""Reads callgrind's files: what each function executes itself, how often it runs, and who calls it.

https://valgrind.org/docs/manual/cl-format.html, "Callgrind Format Specification": names and positions may be
compressed, a file may have several events, and code without symbols has an address in place of a name.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

INSTRUCTIONS = (b"Ir",)  # executed
MISSES = (b"D1mr", b"D1mw")  # reads and writes that miss the first-level data cache, as valgrind simulates it
MISPREDICTED = (b"Bcm", b"Bim")  # conditional branches and indirect jumps, by valgrind's model of a processor
LARGE = 0.1  # share of all from which on a function's hot instructions are kept
HOT = 0.1  # of what the one executed most often has
MOST_HOT = 4096
NAMELESS = ""  # the name of all code of a library that has no symbols
_UNKNOWN = b"???"
_ADDRESS = re.compile(rb"0x[0-9a-fA-F]+$")
_COMPRESSED = re.compile(rb"\((\d+)\)(?: (.*))?$", re.S)
_RECURSION = re.compile(rb"'\d+$")  # callgrind tells a function from itself within itself: --separate-recs
_HEADER = re.compile(rb"([a-z]+):(.*)", re.S)
# Assignments that say where the costs that follow belong: the kind of name, of which compressed names have numbers.
_KINDS = {
    **dict.fromkeys((b"fn", b"cfn", b"jfn"), b"fn"),
    **dict.fromkeys((b"fl", b"fi", b"fe", b"cfl", b"cfi", b"jfi"), b"fl"),
    **dict.fromkeys((b"ob", b"cob"), b"ob"),
}


class FunctionId(NamedTuple):
    """A function: its name, ``NAMELESS`` where it has no symbol, and the path of its library, empty if unknown.

    ``address`` is where one without a symbol begins in its library's file; 0: that isn't known, or it has a symbol.
    """

    name: str
    library: str
    address: int = 0


@dataclass
class FunctionCost:
    """What one function executed.

    ``self_cost`` is without what it calls. ``file`` and ``line`` are where it is defined, or near that. ``callers`` has
    what it executed with all that it calls in turn, by who called it, without itself. ``looked_at`` are those of its
    own instructions of which it is known whether they work on vectors, and ``vectors`` those that do, by the vectors'
    size in bytes. ``mispredicted`` are its own branches that were. ``hot`` has the addresses, in order, of the
    instructions that it executes most, if it has a good part of all; ``hot_of`` is the cost of the function that these
    are of.
    """

    self_cost: int = 0
    calls: int = 0
    file: str = ""
    line: int = 0
    callers: Counter[FunctionId] = field(default_factory=Counter)
    looked_at: int = 0
    vectors: Counter[int] = field(default_factory=Counter)
    mispredicted: int = 0
    hot: tuple[int, ...] = field(default=(), compare=False)
    hot_of: int = field(default=0, compare=False)

    def add(self, other: "FunctionCost") -> None:
        """Count what another function executes itself, and its calls; its callers are left out."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.hot_of > self.hot_of:
            self.hot, self.hot_of = other.hot, other.hot_of
        self.vectors.update(other.vectors)

    def subtract(self, other: "FunctionCost") -> None:
        """Take away what ``other`` has, down to 0."""
        for name in _COUNTS:
            setattr(self, name, max(0, getattr(self, name) - getattr(other, name)))
        self.vectors, self.callers = self.vectors - other.vectors, self.callers - other.callers


_COUNTS = ("self_cost", "calls", "looked_at", "mispredicted")


@dataclass
class CallgrindProfile:
    """One of callgrind's files: functions, and the cost of all, in so many ``calls`` of the case; ``branches``:
    mispredicted ones were counted."""

    functions: dict[FunctionId, FunctionCost] = field(default_factory=dict)
    total: int = 0
    branches: bool = False
    calls: float = 1

    def subtract(self, other: "CallgrindProfile") -> None:
        """Take away what ``other`` has, down to 0 in each function: what is executed around the calls, say."""
        for function in self.functions.keys() & other.functions.keys():
            self.functions[function].subtract(other.functions[function])
        self.total = max(0, self.total - other.total)


Locate = Callable[[str, int], int | None]


def read_callgrind(
    stream: IO[bytes],
    locate: Locate = lambda _library, _address: None,
    vector_size: Locate = lambda _library, _address: None,
    events: Sequence[bytes] = INSTRUCTIONS,
) -> CallgrindProfile:
    """Return the ``events``, added up, by function: instructions, or what else callgrind counted. Recursion levels of a
    function are one, all code of a library that has no symbols is one function called ``NAMELESS``, and what is inlined
    belongs to the function that it is inlined in.

    ``locate`` says where the function begins that an address of a library is in, None if it doesn't know; where it
    knows, code without symbols is by function. ``vector_size`` says how many bytes the vectors have that the
    instruction at an address of a library works on, 0 for none, and None where that isn't known; it is asked where the
    file has every instruction (``--dump-instr=yes``). Raises ValueError: not a whole file of callgrind's; with the
    number of the line.
    """
    return _Reader(stream, locate, vector_size, events).read()


class _Reader:
    """The state of reading: where the line before has left off."""

    def __init__(self, stream: IO[bytes], locate: Locate, vector_size: Locate, events: Sequence[bytes]) -> None:
        self._locate, self._vector_size, self._events = locate, vector_size, events
        self._lines = enumerate(stream, 1)
        self._number, self._text = 0, b""  # of the present line
        self._profile = CallgrindProfile()
        self._compressed: dict[bytes, dict[bytes, bytes]] = {b"fn": {}, b"fl": {}, b"ob": {}}  # compressed name -> name
        self._ids: dict[tuple[bytes, bytes], FunctionId] = {}
        self._positions = {b"line": 0}  # the present one of each kind: lines, instructions
        self._sizes: dict[tuple[bytes, int], int | None] = {}
        self._executed: dict[FunctionId, Counter[int]] = defaultdict(Counter)  # function -> address -> cost
        self._counted: list[int] = []  # which of a line's costs are counted
        self._mispredicted: list[int] = []  # which of them are mispredicted branches
        self._object = self._file = self._own_file = b""
        self._called_object: bytes | None = None
        self._called: bytes | None = None
        self._function: FunctionId | None = None
        self._cost = FunctionCost()  # of the present function
        self._sum = 0
        self._total: int | None = None

    def read(self) -> CallgrindProfile:
        try:
            while line := self._next_line():
                self._read_line(line.strip())
        except (ValueError, KeyError, IndexError) as error:
            reason = f"not a line of callgrind's: {self._text[:40]!r} ({error})"
            raise ValueError(f"line {self._number}: {reason}") from None
        if self._total is None or not self._counted:
            raise ValueError(f"line {self._number}: ends without totals: not a whole file of callgrind's")
        if self._sum != self._total:
            raise ValueError(f"the functions' costs come to {self._sum}, and the totals say {self._total}")
        self._profile.total = self._total
        for function, executed in self._executed.items():
            cost = self._profile.functions[function]
            if cost.self_cost >= LARGE * self._total and function.library:
                least = HOT * max(executed.values())
                hot = [address for address in sorted(executed) if executed[address] >= least]
                cost.hot, cost.hot_of = tuple(hot[:MOST_HOT]), cost.self_cost
        return self._profile

    def _next_line(self) -> bytes:
        self._number, self._text = next(self._lines, (self._number, b""))
        return self._text

    def _read_line(self, line: bytes) -> None:
        if not line or line.startswith(b"#"):
            return
        if line[:1] in b"0123456789+-*":
            self._add_cost(line)
        elif header := _HEADER.match(line):
            self._read_header(header[1], header[2].split())
        else:
            key, _, value = line.partition(b"=")
            if key == b"calls":
                self._read_call(value)
            elif key in (b"jump", b"jcnd"):  # the line that follows says from where, and has no costs
                self._read_costs(self._next_line())
            else:
                self._set_name(key, self._name(_KINDS[key], value))

    def _read_header(self, key: bytes, values: list[bytes]) -> None:
        if key == b"events":
            self._counted = [values.index(event) for event in self._events]
            self._mispredicted = [at for at, event in enumerate(values) if event in MISPREDICTED]
            self._profile.branches = bool(self._mispredicted)
        elif key == b"positions":
            self._positions = dict.fromkeys(values, 0)
        elif key == b"totals":
            self._total = (self._total or 0) + _sum(values, self._counted)

    def _set_name(self, key: bytes, name: bytes) -> None:
        match key:
            case b"fn":
                self._file = self._own_file
                self._function = self._identify(name, self._object)
                self._cost = self._profile.functions.setdefault(self._function, FunctionCost())
            case b"fl":
                self._file = self._own_file = name
            case b"fi" | b"fe":
                self._file = name
            case b"ob":
                self._object = name
            case b"cob":
                self._called_object = name
            case b"cfn":
                self._called = name

    def _name(self, kind: bytes, text: bytes) -> bytes:
        """Return a name, written out: ``(7) name`` says what ``(7)`` stands for from then on."""
        match = _COMPRESSED.match(text)
        if not match:
            return text
        number, name = match.groups()
        if name is not None:
            self._compressed[kind][number] = name
        return self._compressed[kind][number]

    def _identify(self, name: bytes, library: bytes) -> FunctionId:
        key = (name, library)
        if key not in self._ids:
            name, path = _RECURSION.sub(b"", name), "" if library == _UNKNOWN else library.decode("utf-8", "replace")
            at = self._locate(path, int(name, 16)) if path and _ADDRESS.match(name) else None
            name = b"" if name == _UNKNOWN or _ADDRESS.match(name) else name
            self._ids[key] = FunctionId(name.decode("utf-8", "replace"), path, at or 0)
        return self._ids[key]

    def _add_cost(self, text: bytes) -> None:
        if self._function is None:
            raise ValueError("a cost before any function")
        costs = self._read_costs(text)
        cost = _sum(costs, self._counted)
        self._sum += cost
        self._cost.self_cost += cost
        self._cost.mispredicted += _sum(costs, self._mispredicted)
        if b"instr" in self._positions:
            self._count_vectors(cost)
            self._executed[self._function][self._positions[b"instr"]] += cost
        line = self._positions.get(b"line")
        if self._file == self._own_file != _UNKNOWN and line:
            self._cost.line = min(self._cost.line or line, line)
            self._cost.file = self._cost.file or self._own_file.decode("utf-8", "replace")

    def _count_vectors(self, cost: int) -> None:
        at = self._object, self._positions[b"instr"]
        if at not in self._sizes:
            library = self._object.decode("utf-8", "replace")
            self._sizes[at] = None if self._object == _UNKNOWN else self._vector_size(library, at[1])
        size = self._sizes[at]
        if size is not None:
            self._cost.looked_at += cost
        if size:
            self._cost.vectors[size] += cost

    def _read_call(self, value: bytes) -> None:
        """Read ``calls=`` and the line after it: from where, and what all these calls execute in all that they call."""
        if self._function is None or self._called is None:
            raise ValueError("a call of no function, or by none")
        calls = int(value.split()[0])
        cost = _sum(self._read_costs(self._next_line()), self._counted)
        called = self._identify(self._called, self._object if self._called_object is None else self._called_object)
        self._called = self._called_object = None
        if called == self._function and called.name == NAMELESS:
            return  # one function without a symbol calls another
        target = self._profile.functions.setdefault(called, FunctionCost())
        target.calls += calls
        if called != self._function:
            target.callers[self._function] += cost

    def _read_costs(self, text: bytes) -> list[bytes]:
        """Read a line's positions, and return its costs; those that are left out at its end are 0."""
        fields = text.split()
        for place, kind in enumerate(self._positions):
            self._positions[kind] = _position(self._positions[kind], fields[place])
        return fields[len(self._positions) :]


def _position(before: int, text: bytes) -> int:
    """Return a position, which is a number, or relative to the one before."""
    if text == b"*":
        return before
    number = int(text, 16 if b"x" in text else 10)
    return before + number if text[:1] in b"+-" else number


def _sum(costs: Sequence[bytes], places: Sequence[int]) -> int:
    return sum(int(costs[place]) for place in places if place < len(costs))
