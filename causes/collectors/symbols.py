"""Which function an offset in a library's file is in, by its symbols; and names of C++ as people write them, by
the C++ library's own ``__cxa_demangle``."""

import ctypes
from bisect import bisect_right
from functools import cache

from opduel.causes.collectors.elf_file import ElfFile

LONGEST_NAME = 2000  # characters of a mangled name


class Symbols:
    """The functions of a library's file that have symbols. Raises OSError: it can't be read. ValueError: it isn't a
    whole ELF file."""

    def __init__(self, path: str) -> None:
        self._elf = ElfFile(path)
        self._functions = self._elf.symbols
        self._starts = sorted(self._functions)

    def name_at(self, offset: int) -> str:
        """Return the name of the function that an offset in the file is in; empty where no symbol says so."""
        address = self._elf.address_of(offset)
        number = -1 if address is None else bisect_right(self._starts, address) - 1
        if address is None or number < 0:
            return ""
        start = self._starts[number]
        size, name = self._functions[start]
        if address >= start + size:
            return ""
        return (demangle(name) if name.startswith("_Z") else "") or name


def symbol_at(path: str, offset: int) -> str:
    """Return the function that an offset in a library's file is in; empty where that isn't known."""
    symbols = _symbols(path)
    return symbols.name_at(offset) if symbols else ""


@cache
def _symbols(path: str) -> Symbols | None:
    try:
        return Symbols(path)
    except (OSError, ValueError):
        return None


@cache
def demangle(mangled: str) -> str:
    """Return a function's or type's name in C++; empty where it is none, or the C++ library can't be loaded."""
    library, status = _cxx_library(), ctypes.c_int(0)
    if library is None or len(mangled) > LONGEST_NAME:
        return ""
    place = library.__cxa_demangle(mangled.encode(), None, None, ctypes.byref(status))
    if status.value or not place:
        return ""
    name = ctypes.string_at(place).decode("utf-8", "replace")
    library.free(ctypes.c_void_p(place))
    return name


@cache
def _cxx_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.restype = None
    except (OSError, AttributeError):
        return None
    return library
