"""Which function an address of a library is in, by its symbols, or those of the file that has its debug information.

ELF, 64 bits, little endian: System V ABI, chapter 4.
"""

import ctypes
import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DEBUG_FILES = Path("/usr/lib/debug/.build-id")  # where distributions have them
LONGEST_NAME = 4000
_MAGIC = b"\x7fELF\x02\x01"
_LOAD = 1  # a kind of segment
_SYMBOLS, _NOTE, _DYNAMIC_SYMBOLS = 2, 7, 11  # kinds of sections
_BUILD_ID = 3  # a kind of note
_DAMAGED = (struct.error, OverflowError, IndexError)
_FUNCTIONS = (2, 10)  # kinds of symbols: those that are chosen when the program starts, too


class Symbols:
    """The functions of a library's file.

    Raises:
        OSError: it can't be read.
        ValueError: it isn't a whole file of this kind.
    """

    def __init__(self, path: str, debug_files: Path = DEBUG_FILES) -> None:
        with open(path, "rb") as stream:
            self._bytes = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if self._bytes[:6] != _MAGIC:
            raise ValueError("not a 64-bit ELF file")
        try:
            sections = list(self._sections())
            self._found: dict[int, tuple[int, str]] = dict(self._functions(sections))
            if not any(kind == _SYMBOLS for kind, *_ in sections) and (build_id := self._build_id(sections)):
                debug = debug_files / build_id[:2] / f"{build_id[2:]}.debug"
                if debug.is_file():
                    self._found |= Symbols(str(debug), debug_files)._found
        except _DAMAGED as error:
            raise ValueError(f"not a whole ELF file: {error}") from None
        self._starts = sorted(self._found)

    def _sections(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(kind, place in the file, bytes, number of the section with its names, bytes of an entry)."""
        (table,), (size, number) = struct.unpack_from("<Q", self._bytes, 40), struct.unpack_from("<HH", self._bytes, 58)
        for index in range(number if table else 0):
            _, kind, _, _, place, length, link, _, _, entry = struct.unpack_from(
                "<IIQQQQIIQQ", self._bytes, table + index * size
            )
            yield kind, place, length, link, entry

    def _functions(self, sections: list[tuple[int, int, int, int, int]]) -> Iterator[tuple[int, tuple[int, str]]]:
        """Where each begins, its bytes and its name; of several names the shortest."""
        rows = []
        for kind, place, length, link, entry in sections:
            if kind not in (_SYMBOLS, _DYNAMIC_SYMBOLS) or not entry:
                continue
            names = sections[link][1]
            for at in range(place, place + length - entry + 1, entry):
                name, kinds, _, index, address, size = struct.unpack_from("<IBBHQQ", self._bytes, at)
                if kinds & 15 in _FUNCTIONS and index and size:
                    end = self._bytes.find(b"\0", names + name, names + name + LONGEST_NAME)
                    rows.append((address, size, self._bytes[names + name : end].decode(errors="replace")))
        for address, size, text in sorted(rows, key=lambda row: (row[0], -len(row[2]), row[2])):
            yield address, (size, text)

    def _build_id(self, sections: list[tuple[int, int, int, int, int]]) -> str:
        for kind, place, length, *_ in sections:
            if kind == _NOTE and length >= 16:
                name, size, what = struct.unpack_from("<III", self._bytes, place)
                if what == _BUILD_ID and self._bytes[place + 12 : place + 16] == b"GNU\0" and name == 4:
                    return self._bytes[place + 16 : place + 16 + size].hex()
        return ""

    def _address(self, place: int) -> int | None:
        """Where that is, of what lies at a place in the file."""
        (table,), (size, number) = struct.unpack_from("<Q", self._bytes, 32), struct.unpack_from("<HH", self._bytes, 54)
        for index in range(number):
            kind, _, at, address, _, length = struct.unpack_from("<IIQQQQ", self._bytes, table + index * size)
            if kind == _LOAD and at <= place < at + length:
                return int(address + place - at)
        return None

    def at(self, place: int) -> str:
        """The name of the function that a place in the file is in; empty where no symbol says so."""
        address = self._address(place)
        number = -1 if address is None else bisect_right(self._starts, address) - 1
        if address is None or number < 0:
            return ""
        start = self._starts[number]
        size, name = self._found[start]
        return demangled(name) if address < start + size else ""


@cache
def _symbols(path: str) -> Symbols | None:
    try:
        return Symbols(path)
    except (OSError, ValueError):
        return None


def symbol_at(path: str, place: int) -> str:
    """The function that a place in a library's file is in; empty where that isn't known."""
    found = _symbols(path)
    try:
        return found.at(place) if found is not None else ""
    except _DAMAGED:
        return ""


@cache
def demangled(name: str) -> str:
    """A name of C++ as people write it; as it is where there is nothing that can read it."""
    library = _demangler()
    if not name.startswith("_Z") or library is None:
        return name
    status = ctypes.c_int(0)
    text = library.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value or not text:
        return name
    found = ctypes.string_at(text).decode(errors="replace")
    library.free(ctypes.c_void_p(text))
    return found


@cache
def _demangler() -> ctypes.CDLL | None:
    """The C++ library of this process or of the system."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.restype = None
    except (OSError, AttributeError):
        return None
    return library
