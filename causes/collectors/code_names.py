"""Names of functions that a stripped library still has: in its checks, and in the types of its lambdas.

A check that reports ``__PRETTY_FUNCTION__`` refers to the name of the function that it is in, or that it was inlined
into.  What a compiler moves out of the way, such as the failing branch of a check, is a function of its own in the
library's table; the code that jumps into it is the function that it is part of.  A lambda in a ``std::function`` comes
with a function that knows its type, whose name says which function the lambda is in; both are taken as pointers at
one place.  Demangling is by the C++ library's own ``__cxa_demangle``, where that can be loaded.
"""

import ctypes
import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[np.int64]
MOST_FUNCTIONS = 4  # that mention a name: one that more of them do is of what is inlined all over
NEAR = 128  # bytes of code between the two pointers of a std::function
LONGEST_NAME = 2000  # characters of a mangled name
LONGEST_ARGUMENTS = 80  # characters of template arguments that are kept

_PRETTY = re.compile(r"[A-Za-z_][\w:<>,*&\[\] ~={}()#.]*\)(?: const)?(?: \[with .*\])?$")
_TYPE = re.compile(r"\*?[NZ]\w+$")
_OF_LIBRARIES = re.compile(r"(?:std|gsl|__gnu_cxx|Eigen|absl|boost)::")
_LAMBDA = re.compile(r"::\{lambda\([^{}]*\)#\d+\}")


class Code(Protocol):
    """What is read of a library."""

    starts: Table

    def text(self, address: int) -> bytes: ...
    def instructions(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]: ...
    def class_of(self, start: int) -> str: ...
    @property
    def pointers(self) -> Mapping[int, int]: ...


class CodeNames:
    """The names that a library's code has for its functions."""

    def __init__(self, library: Code) -> None:
        self._library = library

    def of(self, start: int) -> str:
        """The name of the function that begins there, without parameters; empty where nothing says it."""
        return self._lambdas.get(start, "") or self._checked(start) or self._taken(start)

    def cold_parts(self, start: int) -> list[int]:
        """Where the parts of a function begin that were moved out of it."""
        return self._cold.get(start, [])

    def _taken(self, start: int) -> str:
        """The function that takes the address of this one, for others to call it; empty if several do."""
        owners = self._takers.get(start, set())
        if not 0 < len(owners) <= MOST_FUNCTIONS:
            return ""
        names = {self._lambdas.get(one, "") or self._checked(one) or self._library.class_of(one) for one in owners}
        return names.pop() if len(names) == 1 else ""

    @cached_property
    def _takers(self) -> dict[int, set[int]]:
        """Where functions begin -> where those begin that take their address."""
        at, to = self._pointers_to_functions
        found: dict[int, set[int]] = {}
        for owner, start in zip(self._function(at).tolist(), to.tolist(), strict=True):
            if owner != start:
                found.setdefault(start, set()).add(owner)
        return found

    def _checked(self, start: int) -> str:
        counts: dict[str, int] = {}
        for part in (start, *self.cold_parts(start)):
            for name in self._mentioned.get(part, ()):
                counts[name] = counts.get(name, 0) + 1
        own = self._library.class_of(start)
        able = [name for name in counts if self._mentions[name] <= MOST_FUNCTIONS]
        able = [name for name in able if own and plain(name).startswith(plain(own) + "::")] or able
        most = max((counts[name] for name in able), default=0)
        found = {short_function(name) for name in able if counts[name] == most}
        return found.pop() if len(found) == 1 else ""

    @cached_property
    def _references(self) -> tuple[Table, Table, npt.NDArray[np.bool_]]:
        """Where code refers to an address relative to itself, to which, and whether it takes the address (``lea``)."""
        found = []
        for address, code in self._library.instructions():
            at = np.flatnonzero((code[2:-4] & 0xC7) == 0x05) + 2  # ModRM: disp32(%rip)
            takes = (code[at - 1] == 0x8D) & ((code[at - 2] & 0xFB) == 0x48)
            found.append((at + address, at + address + 5 + _numbers(code, at + 1), takes))
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]

    def _function(self, addresses: Table) -> Table:
        """Where the functions begin that addresses are in."""
        starts = self._library.starts
        return starts[np.maximum(np.searchsorted(starts, addresses, "right") - 1, 0)]

    @cached_property
    def _mentioned(self) -> dict[int, list[str]]:
        """Where functions begin -> the names in their checks, as often as they are there."""
        places, targets, takes = self._references
        places, targets = places[takes], targets[takes]
        names: dict[int, str] = {}
        for target in np.unique(targets).tolist():
            text = self._library.text(target).decode("ascii", "replace")
            if len(text) > 8 and _PRETTY.match(text) and "::" in text and not _OF_LIBRARIES.match(_qualified(text)):
                names[target] = text
        named = np.isin(targets, np.array([*names], dtype=np.int64))
        found: dict[int, list[str]] = {}
        for start, target in zip(self._function(places[named]).tolist(), targets[named].tolist(), strict=True):
            found.setdefault(start, []).append(names[target])
        return found

    @cached_property
    def _mentions(self) -> dict[str, int]:
        """A name -> how many functions mention it."""
        counts: dict[str, int] = {}
        for names in self._mentioned.values():
            for name in set(names):
                counts[name] = counts.get(name, 0) + 1
        return counts

    @cached_property
    def _cold(self) -> dict[int, list[int]]:
        """Where functions begin -> the parts that they alone jump into, other than to call them."""
        starts, found = self._library.starts, dict[int, set[int]]()
        for address, code in self._library.instructions():
            at = np.flatnonzero((code[:-6] == 0x0F) & ((code[1:-5] & 0xF0) == 0x80))  # jcc rel32
            goes = at + address + 6 + _numbers(code, at + 2)
            inside = (goes >= address) & (goes < address + len(code))
            here, there = self._function(at[inside] + address), self._function(goes[inside])
            for one, other in zip(here[here != there].tolist(), there[here != there].tolist(), strict=True):
                found.setdefault(other, set()).add(one)
        parts: dict[int, list[int]] = {}
        known = set(starts.tolist())
        for part, owners in found.items():
            if len(owners) == 1 and part in known:
                parts.setdefault(owners.pop(), []).append(part)
        return parts

    @cached_property
    def _lambdas(self) -> dict[int, str]:
        """Where functions begin that run a lambda -> the name of the function that the lambda is in."""
        managers = self._managers
        if not managers:
            return {}
        at, to = self._pointers_to_functions
        manages = np.isin(to, np.array([*managers], dtype=np.int64))
        found: dict[int, set[str]] = {}
        for number in np.flatnonzero(manages).tolist():
            near = [
                (abs(int(at[one] - at[number])), int(to[one]))
                for one in range(max(0, number - 2), min(len(at), number + 3))
                if not manages[one]
            ]
            distance, runs = min(near, default=(NEAR, 0))
            if distance < NEAR:
                found.setdefault(runs, set()).add(managers[int(to[number])])
        names = {start: types.pop() for start, types in found.items() if len(types) == 1}
        return {start: name for start, mangled in names.items() if (name := lambda_function(mangled))}

    @cached_property
    def _managers(self) -> dict[int, str]:
        """Where functions begin that know one lambda's type -> its mangled name."""
        places, targets, takes = self._references
        places, targets, pointers = places[takes], targets[takes], self._library.pointers
        types: dict[int, str] = {}
        for target in np.unique(targets).tolist():
            name = self._library.text(pointers[target + 8]) if target + 8 in pointers else b""
            if b"U" in name and len(name) < LONGEST_NAME and _TYPE.match(text := name.decode("ascii", "replace")):
                types[target] = text
        named = np.isin(targets, np.array([*types], dtype=np.int64))
        found: dict[int, set[str]] = {}
        for start, target in zip(self._function(places[named]).tolist(), targets[named].tolist(), strict=True):
            found.setdefault(start, set()).add(types[target])
        return {start: names.pop() for start, names in found.items() if len(names) == 1}

    @cached_property
    def _pointers_to_functions(self) -> tuple[Table, Table]:
        """Where code takes a function's address, or reads a pointer to it, in order; and where that function begins."""
        places, targets, takes = self._references
        known = set(self._library.starts.tolist())
        slots = {slot: target for slot, target in self._library.pointers.items() if target in known}
        direct = takes & np.isin(targets, self._library.starts)
        read = ~takes & np.isin(targets, np.array([*slots], dtype=np.int64))
        to = np.array([slots[slot] for slot in targets[read].tolist()], dtype=np.int64)
        at, to = np.concatenate((places[direct], places[read])), np.concatenate((targets[direct], to))
        order = np.argsort(at, kind="stable")
        return at[order], to[order]


def _numbers(code: npt.NDArray[np.uint8], at: Table) -> Table:
    """The signed 32-bit numbers that begin there."""
    numbers: Table = code[at[:, None] + np.arange(4)].copy().view("<i4").reshape(-1).astype(np.int64)
    return numbers


@cache
def _demangler() -> "ctypes._FuncPointer | None":
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function


@cache
def demangled(mangled: str) -> str:
    """A type's or function's name in C++; empty where it is none, or the C++ library can't be loaded."""
    function, status = _demangler(), ctypes.c_int(0)
    if function is None or len(mangled) > LONGEST_NAME:
        return ""
    place = function(ctypes.c_char_p(mangled.lstrip("*").encode()), None, None, ctypes.byref(status))
    if not place:
        return ""
    text = ctypes.string_at(place).decode("utf-8", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(place))
    return text


def lambda_function(mangled: str) -> str:
    """The function that a lambda is in, by the mangled name of its type: where that is a template that got another
    lambda, the function that this one is in; empty where it is no lambda."""
    if not mangled.startswith(("*Z", "Z")) or not (text := demangled(mangled)):
        return ""
    first = _LAMBDA.search(text)
    if first is None:
        return ""
    name = text[: first.start()]
    while (bracket := _open(name)) is not None:  # the lambda is a template's argument
        name = _last_argument(name[bracket + 1 :])
    return short_function(name)


def _open(name: str) -> int | None:
    """Where the first template bracket is that nothing closes."""
    depth: list[int] = []
    for at, char in enumerate(name):
        if char == "<":
            depth.append(at)
        elif char == ">" and depth and name[at - 1] != "-":
            depth.pop()
    return depth[0] if depth else None


def _last_argument(arguments: str) -> str:
    depth, began = 0, 0
    for at, char in enumerate(arguments):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            began = at + 1
    return arguments[began:].strip()


def _qualified(pretty: str) -> str:
    """``lib::Sum<T>::run`` of ``static void lib::Sum<T>::run(int) [with T = float]``."""
    text = re.sub(r" \[with .*\]$", "", pretty)
    depth, end = 0, len(text)
    for at in range(len(text) - 1, -1, -1):  # the parameters are in the last brackets
        depth += (text[at] == ")") - (text[at] == "(")
        if text[at] == "(" and depth == 0:
            end = at
            break
    text, depth = text[:end], 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ">)") - (text[at] in "<(")
        if text[at] in " *&" and depth == 0:
            return text[at + 1 :]
    return text


def short_function(name: str) -> str:
    """A function's name without return type and parameters, with its template arguments where they are short."""
    given = re.search(r" \[with (.*)\]$", name)
    short = _qualified(name) if ")" in name else name
    for key, value in re.findall(r"(?:\w+ )*?(\w+) = ([^;]+)", given[1]) if given else ():
        short = re.sub(rf"(?<=[<, ]){key}(?=[>,])", value.strip(), short)
    return _without_long_arguments(short)


def _without_long_arguments(name: str) -> str:
    kept, depth, began = "", 0, 0
    for char in name:
        depth += char == "<"
        if depth == 1 and char == "<":
            began = len(kept)
        kept += char
        depth -= char == ">"
        if depth == 0 and char == ">" and len(kept) - began > LONGEST_ARGUMENTS:
            kept = kept[:began] + "<...>"
    return kept


def plain(name: str) -> str:
    """A name without template arguments."""
    name = _qualified(name) if ")" in name else name
    while (less := re.sub(r"<[^<>]*>", "", name)) != name:
        name = less
    return name
