"""What functions without symbols belong to: where they begin, and what their code, their vtables and callers say.

A stripped library still says where its functions begin. Checks refer to the function (``__PRETTY_FUNCTION__``) and the
file (``__FILE__``) that they are in, and vtables to the class's name (Itanium C++ ABI, 2.9.4). A function that has none
of these counts for the one that calls it for most, up to the first that has one, or a symbol.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import PurePosixPath

from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.elf_file import ElfFile
from opduel.causes.collectors.machine_code import LONGEST, references, vector_bytes
from opduel.causes.collectors.symbols import demangle
from opduel.causes.function_names import bare, is_pretty_function, short_function, without_arguments
from opduel.records.cause import CODE_OF

DEEPEST = 12  # calls between a function and the one that it counts for
LONGEST_FUNCTION = 1 << 20  # bytes of code that are looked through
MOST_FUNCTIONS = 50_000  # of a library that is looked through as a whole, which takes some 10 s
MOST_MENTIONS = 4  # functions that mention a name that may be their own
MOST_CLASSES = 4  # that share a method: one that more of them inherit says nothing
_SOURCE = re.compile(rb"[\w./+-]+\.(?:cc|cpp|cxx|c|cu|C)$|[\w./+-]+-inl\.h$")
_CLASS = re.compile(rb"\*?N?(?:St)?(?:\d+[A-Za-z_]\w*)+$")


@dataclass(frozen=True)
class _References:
    """The addresses that a function's code takes (``lea``), those that it reads, and the other functions that it may
    jump to."""

    addresses: list[int] = field(default_factory=list)
    reads: list[int] = field(default_factory=list)
    parts: set[int] = field(default_factory=set)


class StrippedLibrary(ElfFile):
    """A library whose functions have no symbols. Raises OSError, ValueError: as ``ElfFile``."""

    def sources(self, start: int) -> list[str]:
        """Return the source files that a function's code refers to, without headers; the most frequent first."""
        texts = (self.text(address) for part in self._parts(start) for address in self._references(part).addresses)
        counts = Counter(_shorten_path(text.decode()) for text in texts if _SOURCE.match(text))
        return sorted(counts, key=lambda path: (-counts[path], path))

    def name_of(self, start: int) -> str:
        """Return a function's own name, as its checks report it, or that of the function that takes its address for
        others to call it, as it does with a lambda; empty where neither is known."""
        if name := self._check_name(start):
            return name
        takers = self._takers.get(start, set())
        names = {self._check_name(taker) or self.class_of(taker) for taker in takers}
        return names.pop() if len(names) == 1 and len(takers) <= MOST_MENTIONS else ""

    def _check_name(self, start: int) -> str:
        """Return the name that a function's checks report. One that many functions mention is of what is inlined all
        over."""
        names = [name for part in self._parts(start) for name in self._names.get(part, ())]
        names = [name for name in names if self._mentions[name] <= MOST_MENTIONS]
        if owner := without_arguments(self.class_of(start)):
            names = [name for name in names if without_arguments(name).startswith(f"{owner}::")] or names
        counts = Counter(names)
        likely = {short_function(name) for name, count in counts.items() if count == max(counts.values())}
        return likely.pop() if len(likely) == 1 else ""

    def _parts(self, start: int) -> list[int]:
        """Return where a function begins, and where the functions begin that it jumps to: a compiler moves to such ones
        what is rarely executed, such as the failing branch of a check."""
        return [start, *sorted(self._references(start).parts)]

    def _references(self, start: int) -> "_References":
        size = self.end_of(start) - start
        code = self.read(start, size) if size <= LONGEST_FUNCTION else b""
        function_references = _References()
        for instruction, address in references(code, start):
            if instruction == "lea":
                function_references.addresses.append(address)
            elif instruction[0] != "j":
                function_references.reads.append(address)
            elif instruction != "jmp" and not start <= address < start + size and address in self.function_starts:
                function_references.parts.add(address)
        return function_references

    @cached_property
    def _all_references(self) -> "dict[int, _References]":
        """The references of every function; empty for a library that takes too long to look through."""
        starts = self.function_starts
        return {start: self._references(start) for start in starts} if len(starts) <= MOST_FUNCTIONS else {}

    @cached_property
    def _names(self) -> dict[int, list[str]]:
        """Where functions begin -> the names in their checks."""
        names = {}
        for start, function_references in self._all_references.items():
            texts = (self.text(address).decode("ascii", "replace") for address in function_references.addresses)
            if pretty := [text for text in texts if is_pretty_function(text)]:
                names[start] = pretty
        return names

    @cached_property
    def _mentions(self) -> Counter[str]:
        return Counter(name for names in self._names.values() for name in set(names))

    @cached_property
    def _takers(self) -> dict[int, set[int]]:
        """Where functions begin -> where those begin that take their address, or read a pointer to them."""
        takers: dict[int, set[int]] = {}
        for start, function_references in self._all_references.items():
            read = (self.pointers.get(address, start) for address in function_references.reads)
            for address in self.function_starts.intersection([*function_references.addresses, *read]) - {start}:
                takers.setdefault(address, set()).add(start)
        return takers

    def class_of(self, start: int) -> str:
        """Return the class that a function is a virtual method of; empty if it isn't one, or of many. Of several it is
        the one with the shortest name, without template arguments: which of them was called isn't known."""
        names = self._classes.get(start, set())
        if not 0 < len(names) <= MOST_CLASSES:
            return ""
        if len(names) > 1:
            names = {without_arguments(name) for name in names}
        return min(names, key=lambda name: (len(name), name))

    @cached_property
    def _classes(self) -> dict[int, set[str]]:
        """Where virtual methods begin -> the classes whose vtables have them."""
        pointers, classes = self.pointers, dict[int, set[str]]()
        for slot in sorted(place for place, target in pointers.items() if target in self.function_starts):
            first = slot
            while pointers.get(first - 8) in self.function_starts:
                first -= 8
            information = pointers.get(first - 8, -8)
            mangled = self.text(pointers[information + 8]) if information + 8 in pointers else b""
            if _CLASS.match(mangled) and (name := demangle(mangled.decode().lstrip("*"))):
                classes.setdefault(pointers[slot], set()).add(name)
        return classes


def _shorten_path(path: str) -> str:
    """Return a source file's path without what leads from where the compiler ran to it."""
    return "/".join(part for part in path.split("/") if part not in ("", ".", ".."))


@cache
def library_at(path: str) -> StrippedLibrary | None:
    """Return the library of a path; None: it can't be read, or isn't such a library."""
    try:
        return StrippedLibrary(path)
    except (OSError, ValueError):
        return None


def locate(path: str, address: int) -> int | None:
    """Return where the function begins that an address of a library is in; None: that isn't known."""
    library = library_at(path)
    return None if library is None else library.function_at(address)


def vector_size(path: str, address: int) -> int | None:
    """Return how many bytes the vectors have that the instruction at an address of a library works on, 0 for none;
    None: that isn't known."""
    library = library_at(path)
    code = b"" if library is None else library.read(address, LONGEST)
    return vector_bytes(code) if code else None


def with_owners(profile: CallgrindProfile) -> CallgrindProfile:
    """Return the profile with the functions that callgrind knows by address alone joined to one for each source file,
    class or function with a symbol that they belong to, and to ``NAMELESS`` where nothing says what they are."""
    owners = {function: _owner(function, profile) for function in profile.functions if function.address}
    joined = replace(profile, functions={})
    for function, cost in profile.functions.items():
        owner, file = owners.get(function, (function, cost.file))
        owner_cost = joined.functions.setdefault(owner, FunctionCost(file=file, line=cost.line))
        owner_cost.add(cost)
        for caller, amount in cost.callers.items():
            if (calling := owners.get(caller, (caller, ""))[0]) != owner:
                owner_cost.callers[calling] += amount
    return joined


def _owner(function: FunctionId, profile: CallgrindProfile) -> tuple[FunctionId, str]:
    """Return what a function without a symbol counts for, and the source file of that if it is another name."""
    for caller in _callers(function, profile):
        if caller.library == function.library:
            name, file = _name(caller)
            if name:
                return FunctionId(CODE_OF + name, function.library), file
    return FunctionId(NAMELESS, function.library), ""


def _callers(function: FunctionId, profile: CallgrindProfile) -> Iterator[FunctionId]:
    """Yield the function, who calls it for most, who calls that one, and so on, up to Python's interpreter."""
    current, visited = function, set[FunctionId]()
    for _ in range(DEEPEST):
        yield current
        visited.add(current)
        cost = profile.functions.get(current, FunctionCost())
        amounts = {caller: amount for caller, amount in cost.callers.items() if caller not in visited}
        current = max(amounts, key=lambda caller: (amounts[caller], caller), default=function)
        if current == function or re.match(r"(?:lib)?python\d", PurePosixPath(current.library).name):
            return


@cache
def _name(function: FunctionId) -> tuple[str, str]:
    """Return the first that a function has: a name of its own, a source file, a symbol, or a class, and "" if none; and
    the source file of its own name. A source file comes before a class: it is the same for what another build has in
    another function."""
    library = library_at(function.library) if function.address else None
    if library is None:
        return bare(function.name), ""
    file = next(iter(library.sources(function.address)), "")
    if name := library.name_of(function.address):
        return name, file
    return file or library.class_of(function.address), ""
