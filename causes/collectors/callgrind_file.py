"""Reads callgrind's files: what each function executes itself, how often it runs, and who calls it.

https://valgrind.org/docs/manual/cl-format.html, "Callgrind Format Specification": names and positions may be
compressed, a file may have several events, and code without symbols has an address in place of a name.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple, NoReturn

INSTRUCTIONS = (b"Ir",)  # executed
MISSES = (b"D1mr", b"D1mw")  # reads and writes that miss the first-level data cache, as valgrind simulates it
MISPREDICTED = (b"Bcm", b"Bim")  # conditional branches and indirect jumps, by valgrind's model of a processor
MOST_BYTES = 2 << 30
LONGEST_LINE = 1 << 20  # bytes: names of C++ may have tens of thousands
MOST_FUNCTIONS = 1_000_000
LARGE = 0.1  # share of all from which on a function's hot instructions are kept
HOT = 0.1  # of what the one executed most often has
MOST_HOT = 4096
NAMELESS = ""  # the name of all code of a library that has no symbols
_UNKNOWN = b"???"
_ADDRESS = re.compile(rb"0x[0-9a-fA-F]+$")
_COMPRESSED = re.compile(rb"\((\d+)\)(?: (.*))?$", re.S)
_RECURSION = re.compile(rb"'\d+$")  # callgrind tells a function from itself within itself: --separate-recs
_HEADER = re.compile(rb"[a-z]+:")
_POSITIONS = (b"instr", b"line")
# What says where the costs that follow belong: the kind of name, which is what compressed names have in common.
_NAMES = {
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

    ``self_cost`` is without what it calls, ``calls`` how often it was called. ``file`` and ``line`` are where it is
    defined, or near that: empty and 0 where that isn't known. ``callers`` has what it executed with all that it calls
    in turn, by who called it; a function that calls itself isn't among its callers. ``looked_at`` are those of its own
    instructions of which it is known whether they work on vectors, and ``vectors`` those that do, by the vectors' size
    in bytes. ``mispredicted`` are its own branches that were mispredicted, where these were counted. ``hot`` has the
    addresses, in order, of the instructions that it executes most, if it has a good part of all and that is known;
    ``hot_of`` is the cost of the function that these are of: of several that are counted as one the largest.
    """

    self_cost: int = 0
    calls: int = 0
    file: str = ""
    line: int = 0
    callers: dict[FunctionId, int] = field(default_factory=dict)
    looked_at: int = 0
    vectors: dict[int, int] = field(default_factory=dict)
    mispredicted: int = 0
    hot: tuple[int, ...] = field(default=(), compare=False)
    hot_of: int = field(default=0, compare=False)

    def add(self, other: "FunctionCost") -> None:
        """Count what another function executes itself, and its calls; its callers are left out."""
        self.self_cost += other.self_cost
        self.calls += other.calls
        self.looked_at += other.looked_at
        self.mispredicted += other.mispredicted
        if other.hot_of > self.hot_of:
            self.hot, self.hot_of = other.hot, other.hot_of
        for size, amount in other.vectors.items():
            self.vectors[size] = self.vectors.get(size, 0) + amount


@dataclass
class CallgrindProfile:
    """One of callgrind's files: functions, and the cost of all; ``branches``: mispredicted ones were counted."""

    functions: dict[FunctionId, FunctionCost] = field(default_factory=dict)
    total: int = 0
    branches: bool = False

    def subtract(self, other: "CallgrindProfile") -> None:
        """Take away what ``other`` has, down to 0 in each function: what is executed around the calls, say."""
        for function, less in other.functions.items():
            if cost := self.functions.get(function):
                cost.self_cost = max(0, cost.self_cost - less.self_cost)
                cost.calls = max(0, cost.calls - less.calls)
                cost.looked_at = max(0, cost.looked_at - less.looked_at)
                cost.mispredicted = max(0, cost.mispredicted - less.mispredicted)
                cost.vectors = {
                    size: max(0, amount - less.vectors.get(size, 0)) for size, amount in cost.vectors.items()
                }
                cost.callers = {
                    caller: max(0, all_ - less.callers.get(caller, 0)) for caller, all_ in cost.callers.items()
                }
        self.total = max(0, self.total - other.total)


Locate = Callable[[str, int], int | None]


def read_callgrind(
    stream: IO[bytes],
    most_bytes: int = MOST_BYTES,
    locate: Locate | None = None,
    vector_size: Locate | None = None,
    events: Sequence[bytes] = INSTRUCTIONS,
) -> CallgrindProfile:
    """Return the ``events``, added up, by function: instructions, or what else callgrind counted. Recursion levels of a
    function are one, all code of a library that has no symbols is one function called ``NAMELESS``, and what is inlined
    belongs to the function that it is inlined in.

    ``locate`` says where the function begins that an address of a library is in, None if it doesn't know; where it
    knows, code without symbols is by function. ``vector_size`` says how many bytes the vectors have that the
    instruction at an address of a library works on, 0 for none, and None where that isn't known; it is asked where the
    file has every instruction (``--dump-instr=yes``).

    Raises:
        ValueError: not a whole file of callgrind's, or a larger one than can be read; with the number of the line.
    """
    return _Reader(stream, most_bytes, locate or _unknown, vector_size or _unknown, events).read()


def _unknown(library: str, address: int) -> None:
    """Return None: nothing is known of an address."""


def _hot(executed: Mapping[int, int]) -> tuple[int, ...]:
    """Return the addresses of the instructions that are executed most, in order."""
    most = max(executed.values())
    return tuple(address for address in sorted(executed) if executed[address] >= HOT * most)[:MOST_HOT]


class _Reader:
    """The state of reading: where the line before has left off."""

    def __init__(
        self, stream: IO[bytes], most_bytes: int, locate: Locate, vector_size: Locate, events: Sequence[bytes]
    ) -> None:
        self._stream, self._bytes_left, self._locate, self._vector_size = stream, most_bytes, locate, vector_size
        self._names = events
        self._following = self._lines()
        self._number = 0  # of the present line
        self._profile = CallgrindProfile()
        self._compressed: dict[bytes, dict[bytes, bytes]] = {b"fn": {}, b"fl": {}, b"ob": {}}  # compressed name -> name
        self._ids: dict[tuple[bytes, bytes], FunctionId] = {}
        # how many numbers come before the costs; which is the line's, and which the instruction's: -1 for none
        self._positions, self._line_field, self._address_field = 1, 0, -1
        self._address = 0
        self._sizes: dict[tuple[bytes, int], int | None] = {}
        self._executed: dict[FunctionId, dict[int, int]] = {}  # function -> address -> cost
        self._counted: list[int] = []  # which of a line's costs are counted
        self._mispredicted: list[int] = []  # which of them are mispredicted branches
        self._object = self._file = self._own_file = b""
        self._called_object: bytes | None = None
        self._called: bytes | None = None
        self._function: FunctionId | None = None
        self._cost = FunctionCost()  # of the present function
        self._line = 0
        self._sum = 0
        self._total: int | None = None

    def read(self) -> CallgrindProfile:
        for line in self._following:
            first = line[:1]
            if first in b"0123456789+-*":  # also an empty line
                if line:
                    self._add_cost(line)
            elif _HEADER.match(line):
                self._read_header(line)
            elif first != b"#":
                self._read_assignment(line)
        if self._total is None:
            raise ValueError(f"line {self._number}: ends without totals: not a whole file of callgrind's")
        if self._sum != self._total:
            raise ValueError(f"the functions' costs come to {self._sum}, and the totals say {self._total}")
        self._profile.total = self._total
        for function, executed in self._executed.items():
            cost = self._profile.functions[function]
            if cost.self_cost >= LARGE * self._total and function.library:
                cost.hot, cost.hot_of = _hot(executed), cost.self_cost
        return self._profile

    def _lines(self) -> Iterator[bytes]:
        while line := self._stream.readline(LONGEST_LINE):
            self._number += 1
            self._bytes_left -= len(line)
            if self._bytes_left < 0:
                self._fail("the file is too large")
            if len(line) == LONGEST_LINE:
                self._fail(f"longer than {LONGEST_LINE} bytes")
            yield line.strip()

    def _fail(self, reason: str) -> NoReturn:
        raise ValueError(f"line {self._number}: {reason}")

    def _read_header(self, line: bytes) -> None:
        key, _, value = line.partition(b":")
        if key == b"events":
            events = value.split()
            if lacking := [name.decode() for name in self._names if name not in events]:
                self._fail(f"no event {lacking[0]} among {value.decode('ascii', 'replace').strip()!r}")
            self._counted = [events.index(name) for name in self._names]
            self._mispredicted = [at for at, event in enumerate(events) if event in MISPREDICTED]
            self._profile.branches = bool(self._mispredicted)
        elif key == b"positions":
            positions = value.split()
            if not positions or not set(positions) <= set(_POSITIONS):
                self._fail(f"positions that are none of {b', '.join(_POSITIONS).decode()}")
            self._positions = len(positions)
            self._line_field = positions.index(b"line") if b"line" in positions else -1
            self._address_field = positions.index(b"instr") if b"instr" in positions else -1
        elif key == b"version" and value.strip() != b"1":
            self._fail("a version of the format other than 1")
        elif key == b"totals":
            if not self._counted:
                self._fail("totals of no events")
            self._total = (self._total or 0) + self._counts(value.split(), 0)

    def _read_assignment(self, line: bytes) -> None:
        key, equals, value = line.partition(b"=")
        if not equals:
            self._fail(f"not a line of callgrind's: {line[:40]!r}")
        if key == b"calls":
            self._read_call(value)
        elif key in (b"jump", b"jcnd"):  # the line that follows says from where, and has no costs
            self._read_cost(self._next_line(b"from where it jumps"))
        elif key in _NAMES:
            self._set_name(key, self._name(_NAMES[key], value))
        else:
            self._fail(f"not a line of callgrind's: {line[:40]!r}")

    def _set_name(self, key: bytes, name: bytes) -> None:
        if key == b"fn":
            self._file = self._own_file
            self._function = self._identify(name, self._object)
            self._cost = self._cost_of(self._function)
        elif key == b"fl":
            self._file = self._own_file = name
        elif key in (b"fi", b"fe"):
            self._file = name
        elif key == b"ob":
            self._object = name
        elif key == b"cob":
            self._called_object = name
        elif key == b"cfn":
            self._called = name

    def _name(self, kind: bytes, text: bytes) -> bytes:
        """Return a name, written out: ``(7) name`` says what ``(7)`` stands for from then on."""
        match = _COMPRESSED.match(text)
        if not match:
            return text
        number, name = match.groups()
        if name is not None:
            self._compressed[kind][number] = name
        elif number not in self._compressed[kind]:
            self._fail(f"a name that was not defined before: {text[:40]!r}")
        return self._compressed[kind][number]

    def _identify(self, name: bytes, library: bytes) -> FunctionId:
        key = (name, library)
        function = self._ids.get(key)
        if function is None:
            name, path = _RECURSION.sub(b"", name), "" if library == _UNKNOWN else library.decode("utf-8", "replace")
            at = self._locate(path, int(name, 16)) if path and _ADDRESS.match(name) else None
            name = b"" if name == _UNKNOWN or _ADDRESS.match(name) else name
            function = FunctionId(name.decode("utf-8", "replace"), path, at or 0)
            self._ids[key] = function
        return function

    def _cost_of(self, function: FunctionId) -> FunctionCost:
        functions = self._profile.functions
        if function not in functions:
            if len(functions) == MOST_FUNCTIONS:
                self._fail(f"more than {MOST_FUNCTIONS} functions")
            functions[function] = FunctionCost()
        return functions[function]

    def _add_cost(self, line: bytes) -> None:
        """Add what the present function executes itself, in one line of its source."""
        cost = self._read_cost(line)
        if self._function is None:
            self._fail("a cost before any function")
        if self._mispredicted:
            fields = line.split()[self._positions :]
            self._cost.mispredicted += sum(self._field(fields, at) for at in self._mispredicted if at < len(fields))
        self._sum += cost
        self._cost.self_cost += cost
        if self._address_field >= 0:
            self._count_vectors(cost)
            by_address = self._executed.setdefault(self._function, {})
            by_address[self._address] = by_address.get(self._address, 0) + cost
        if self._file == self._own_file and self._line and self._own_file != _UNKNOWN:
            if not self._cost.line or self._line < self._cost.line:
                self._cost.line = self._line
            if not self._cost.file:
                self._cost.file = self._own_file.decode("utf-8", "replace")

    def _count_vectors(self, cost: int) -> None:
        """Count an instruction by the size of the vectors that it works on, if that is known."""
        at = self._object, self._address
        if at not in self._sizes:
            library = self._object.decode("utf-8", "replace")
            self._sizes[at] = None if self._object == _UNKNOWN else self._vector_size(library, self._address)
        size = self._sizes[at]
        if size is not None:
            self._cost.looked_at += cost
        if size:
            self._cost.vectors[size] = self._cost.vectors.get(size, 0) + cost

    def _read_call(self, value: bytes) -> None:
        """Read ``calls=`` and the line after it: from where, and what all these calls execute in all that they call."""
        if self._function is None or self._called is None:
            self._fail("a call of no function, or by none")
        calls = self._field(value.split(), 0)
        cost = self._read_cost(self._next_line(b"what calls cost"))
        called = self._identify(self._called, self._object if self._called_object is None else self._called_object)
        self._called = self._called_object = None
        if called == self._function and called.name == NAMELESS:
            return  # one function without a symbol calls another
        target = self._cost_of(called)
        target.calls += calls
        if called != self._function:
            target.callers[self._function] = target.callers.get(self._function, 0) + cost

    def _next_line(self, expected: bytes) -> bytes:
        line = next(self._following, None)
        if line is None:
            self._fail(f"ends before {expected.decode()}")
        return line

    def _read_cost(self, line: bytes) -> int:
        """Read a line of positions and costs, and return the cost; costs that are left out at its end are 0."""
        fields = line.split()
        if not self._counted:
            self._fail("a cost before the events are named")
        if len(fields) < self._positions:
            self._fail("fewer numbers than positions")
        if self._line_field >= 0:
            self._line = self._position(self._line, fields[self._line_field])
        if self._address_field >= 0:
            self._address = self._position(self._address, fields[self._address_field])
        return self._counts(fields, self._positions) if len(fields) > self._positions else 0

    def _counts(self, fields: list[bytes], first: int) -> int:
        """Return the sum of the costs that are counted, of those that begin there; missing ones are 0."""
        self._field(fields, first)  # one there is
        return sum(self._field(fields, first + number) for number in self._counted if first + number < len(fields))

    def _position(self, at: int, position: bytes) -> int:
        """Return a position, which is a number, or relative to the one before."""
        try:
            if position[:1] in b"+-":
                at += int(position)
            elif position != b"*":
                at = int(position, 0) if position[:2] == b"0x" else int(position)
        except ValueError:
            self._fail(f"not a position: {position[:40]!r}")
        if at < 0:
            self._fail("a position below 0")
        return at

    def _field(self, fields: list[bytes], number: int) -> int:
        if number >= len(fields) or not fields[number].isdigit():
            self._fail("a cost that is no number")
        return int(fields[number])
