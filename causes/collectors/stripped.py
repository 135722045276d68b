"""What functions without symbols are: where they begin, and what their code, their vtables and their callers say.

A stripped library (ELF, x86-64) still has tables that it needs at run time. ``.eh_frame_hdr`` says where every function
begins (Linux Standard Base Core, 10.6.2), vtables point to the class's type information, which has its name (Itanium
C++ ABI, 2.9.4), and checks refer to the file that they are in (``__FILE__``). A function that has neither counts for
the one that calls it for most, or that one's caller, up to the first that has either, or a symbol.
"""

import mmap
import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.code_names import CodeNames, demangled, plain
from opduel.causes.collectors.vectors import LONGEST as LONGEST_INSTRUCTION
from opduel.causes.collectors.vectors import vector_bytes
from opduel.causes.wording.phrases import bare
from opduel.records.cause import CODE_OF

Table = npt.NDArray[np.int64]
DEEPEST = 12  # calls between a function and the one that it counts for
LONGEST_FUNCTION = 1 << 20  # bytes of code that are looked through
LONGEST_NAME = 400
MOST_CLASSES = 4  # that share a method: one that more of them inherit says nothing

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian
_LOAD, _DYNAMIC, _EH_FRAME = 1, 2, 0x6474E550  # kinds of segments
_EXECUTABLE = 1  # a flag of theirs
_RELA, _RELA_SIZE = 7, 8  # entries of the dynamic section
_RELATIVE = 8  # a relocation by where the library is loaded
_ENCODINGS = bytes((1, 0x1B, 0x03, 0x3B))  # of .eh_frame_hdr: version 1, and a table relative to it
_LEA = re.compile(rb"[\x48\x4c]\x8d[\x05\x0d\x15\x1d\x25\x2d\x35\x3d](?=(....))", re.S)  # lea disp32(%rip), %r..
_SOURCE = re.compile(rb"[\w./+-]+\.(?:cc|cpp|cxx|c|cu|C)$|[\w./+-]+-inl\.h$")
_CLASS = re.compile(rb"\*?N?(?:St)?(?:\d+[A-Za-z_]\w*)+$")


class Library:
    """A shared library's file. Addresses are those in the file, as callgrind has them.

    Raises:
        OSError: it can't be read.
        ValueError: it isn't a library of this kind, or has no table of its functions.
    """

    def __init__(self, path: str) -> None:
        with open(path, "rb") as stream:
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._bytes[:6] != _MAGIC:
            raise ValueError("not a 64-bit ELF file")
        try:
            self._segments = list(self._read_segments())
            self.starts, self._descriptions = self._read_functions()
        except (struct.error, KeyError, TypeError, IndexError) as error:
            raise ValueError(f"not a whole ELF file: {error}") from None
        self._names = CodeNames(self)

    def _read_segments(self) -> Iterator[tuple[int, int, int, int]]:
        """(kind, address, place in the file, bytes); those with code are in ``_code``, too."""
        self._code: list[tuple[int, int, int]] = []
        (place,), (size, number) = struct.unpack_from("<Q", self._bytes, 32), struct.unpack_from("<HH", self._bytes, 54)
        for index in range(number):
            kind, flags, at, address, _, length = struct.unpack_from("<IIQQQQ", self._bytes, place + index * size)
            if kind == _LOAD and flags & _EXECUTABLE:
                self._code.append((address, at, length))
            yield kind, address, at, length

    def _read_functions(self) -> tuple[Table, Table]:
        """Where functions begin, in order, and where their descriptions are."""
        address, at = next((address, at) for kind, address, at, _ in self._segments if kind == _EH_FRAME)
        if self._bytes[at : at + 4] != _ENCODINGS:
            raise ValueError("an unknown form of .eh_frame_hdr")
        (number,) = struct.unpack_from("<I", self._bytes, at + 8)
        table = np.frombuffer(self._bytes, "<i4", 2 * number, at + 12).reshape(-1, 2).astype(np.int64) + address
        return table[:, 0], table[:, 1]

    def _place(self, address: int) -> int | None:
        """Where in the file that is what will be at an address."""
        for kind, start, at, length in self._segments:
            if kind == _LOAD and start <= address < start + length:
                return address - start + at
        return None

    def instructions(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """Where code will be, and its bytes."""
        for address, at, length in self._code:
            yield address, np.frombuffer(self._bytes, np.uint8, length, at)

    def instruction(self, address: int) -> bytes:
        """The bytes of an instruction, and those that follow; empty for an address outside of the file."""
        place = self._place(address)
        return b"" if place is None else self._bytes[place : place + LONGEST_INSTRUCTION]

    def code(self, start: int, end: int) -> bytes:
        """The bytes from one address to before another; empty for addresses outside of the file."""
        place = self._place(start)
        return b"" if place is None else self._bytes[place : place + end - start]

    def text(self, address: int) -> bytes:
        """The string at an address; empty where there is none."""
        place = self._place(address)
        end = -1 if place is None else self._bytes.find(b"\0", place, place + LONGEST_NAME)
        return b"" if end < 0 else self._bytes[place:end]

    def function_at(self, address: int) -> int | None:
        """Where the function begins that an address is in; None: it is in none."""
        found = bisect_right(self.starts, address) - 1
        if found < 0:
            return None
        start = int(self.starts[found])
        return start if address < start + self._length(found) else None

    def _length(self, number: int) -> int:
        place = self._place(int(self._descriptions[number]))
        return 0 if place is None else int(struct.unpack_from("<i", self._bytes, place + 12)[0])

    def sources(self, start: int) -> list[str]:
        """The source files that a function's code refers to, without those of headers; the most frequent first."""
        found: dict[str, int] = {}
        for part in (start, *self._names.cold_parts(start)):
            for file in self._files(part):
                found[file] = found.get(file, 0) + 1
        return sorted(found, key=lambda file: (-found[file], file))

    def _files(self, start: int) -> Iterator[str]:
        place, length = self._place(start), self._length(bisect_right(self.starts, start) - 1)
        if place is None or length > LONGEST_FUNCTION:
            return
        for lea in _LEA.finditer(self._bytes[place : place + length]):
            (offset,) = struct.unpack("<i", lea[1])
            text = self.text(start + lea.start() + 7 + offset)
            if _SOURCE.match(text):
                yield _shown(text.decode())

    def name_of(self, start: int) -> str:
        """The function's own name, as its checks or the type of its lambda have it; empty where nothing says it."""
        return self._names.of(start)

    def class_of(self, start: int) -> str:
        """The class that a function is a virtual method of; empty if it isn't one, or of many. Of several it is the one
        with the shortest name, without template arguments: which of them was called isn't known."""
        names = self._methods.get(start, set())
        if not 0 < len(names) <= MOST_CLASSES:
            return ""
        return min(names if len(names) == 1 else {plain(name) for name in names}, key=lambda name: (len(name), name))

    @cached_property
    def _methods(self) -> dict[int, set[str]]:
        """Where virtual methods begin -> the classes whose vtables have them."""
        pointers, starts = self.pointers, {int(start) for start in self.starts}
        found: dict[int, set[str]] = {}
        for slot in sorted(place for place, target in pointers.items() if target in starts):
            first = slot
            while pointers.get(first - 8) in starts:
                first -= 8
            information = pointers.get(first - 8)
            name = self.text(pointers[information + 8]) if information and information + 8 in pointers else b""
            if _CLASS.match(name):
                found.setdefault(pointers[slot], set()).add(demangled(name.decode()) or class_name(name.decode()))
        return found

    @cached_property
    def pointers(self) -> dict[int, int]:
        """Where the library has pointers to itself -> to where."""
        place, length = next((at, length) for kind, _, at, length in self._segments if kind == _DYNAMIC)
        entries = dict(struct.unpack_from("<QQ", self._bytes, at) for at in range(place, place + length - 15, 16))
        at = self._place(entries.get(_RELA, 0))
        if at is None:
            return {}
        rows = np.frombuffer(self._bytes, "<i8", 3 * (entries.get(_RELA_SIZE, 0) // 24), at).reshape(-1, 3)
        rows = rows[(rows[:, 1] & 0xFFFFFFFF) == _RELATIVE]
        return dict(zip(rows[:, 0].tolist(), rows[:, 2].tolist(), strict=True))


def _shown(path: str) -> str:
    """A source file's path without what leads from where the compiler ran to it."""
    return "/".join(part for part in path.split("/") if part not in ("", ".", ".."))


def class_name(mangled: str) -> str:
    """``onnxruntime::CumSum`` of ``N11onnxruntime6CumSumIfEE``: without template arguments."""
    at, parts = len(mangled) - len(mangled.lstrip("*N")), ["std"] if mangled.lstrip("*N").startswith("St") else []
    at += 2 * len(parts)
    while number := re.match(r"\d+", mangled[at:]):
        at += number.end() + int(number[0])
        parts.append(mangled[at - int(number[0]) : at])
    return "::".join("(anonymous namespace)" if part.startswith("_GLOBAL__N") else part for part in parts)


@cache
def library_at(path: str) -> Library | None:
    """None: it can't be read, or isn't such a library."""
    try:
        return Library(path)
    except (OSError, ValueError, StopIteration):
        return None


def locate(path: str, address: int) -> int | None:
    """Where the function begins that an address of a library is in."""
    library = library_at(path)
    return None if library is None else library.function_at(address)


def vector_size(path: str, address: int) -> int | None:
    """How many bytes the vectors have that the instruction at an address of a library works on; 0 for none."""
    library = library_at(path)
    code = b"" if library is None else library.instruction(address)
    return vector_bytes(code) if code else None


def described(profile: CallgrindProfile) -> CallgrindProfile:
    """The same, in which functions that callgrind knows by address alone are one for each source file, class or
    function with a symbol that they belong to, and ``NAMELESS`` where nothing says what they are."""
    owners = {function: _owner(function, profile) for function in profile.functions if function.address}
    found = CallgrindProfile(total=profile.total, branches=profile.branches)
    for function, cost in profile.functions.items():
        name, file = owners.get(function, (function, cost.file))
        whole = found.functions.setdefault(name, FunctionCost(file=file, line=cost.line))
        whole.add(cost)
        for caller, amount in cost.callers.items():
            if (by := owners.get(caller, (caller, ""))[0]) != name:
                whole.callers[by] = whole.callers.get(by, 0) + amount
    return found


def _owner(function: FunctionId, profile: CallgrindProfile) -> tuple[FunctionId, str]:
    """What a function without a symbol counts for, and the source file of that if it is another name. Its own name
    comes first; a source file comes before a class: it is the same for what another build has in another function."""
    for at in _way_up(function, profile):
        if at.library != function.library:
            continue
        own, file = _name_of(at), next(iter(_sources(at)), "")
        if name := own or file or bare(at.name) or _class_of(at):
            return FunctionId(CODE_OF + name, function.library), file if own else ""
    return FunctionId(NAMELESS, function.library), ""


def _way_up(function: FunctionId, profile: CallgrindProfile) -> Iterator[FunctionId]:
    """The function, who calls it for most, who calls that one, and so on, up to Python's interpreter."""
    at, seen = function, set[FunctionId]()
    for _ in range(DEEPEST):
        yield at
        seen.add(at)
        cost = profile.functions.get(at)
        above = {one: amount for one, amount in cost.callers.items() if one not in seen} if cost else {}
        at = max(above, key=lambda one: (above[one], one), default=function)
        if at == function or re.match(r"(?:lib)?python\d", PurePosixPath(at.library).name):
            return


@cache
def _name_of(function: FunctionId) -> str:
    library = library_at(function.library)
    return library.name_of(function.address) if library is not None and function.address else ""


@cache
def _sources(function: FunctionId) -> list[str]:
    library = library_at(function.library)
    return library.sources(function.address) if library is not None and function.address else []


def _class_of(function: FunctionId) -> str:
    library = library_at(function.library)
    return library.class_of(function.address) if library is not None and function.address else ""
