"""Names of C++ as people write them, by the C++ library's own ``__cxa_demangle``."""

import ctypes
from functools import cache

LONGEST_NAME = 2000  # characters of a mangled name


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
    """Return the C++ library of this process or of the system."""
    try:
        library = ctypes.CDLL("libstdc++.so.6")
        library.__cxa_demangle.restype = ctypes.c_void_p
        library.free.restype = None
    except (OSError, AttributeError):
        return None
    return library
