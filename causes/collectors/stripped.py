"""What functions without symbols belong to: where they begin, and what their code, their vtables and callers say.

A stripped library still says where its functions begin. Checks refer to the file (``__FILE__``) that they are in, and
vtables to the class's name (Itanium C++ ABI, 2.9.4). A function that has none of these counts for the one that calls it
for most, up to the first that has one, or a symbol.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, cached_property
from pathlib import PurePosixPath

from opduel.causes.collectors.callgrind_file import NAMELESS, CallgrindProfile, FunctionCost, FunctionId
from opduel.causes.collectors.elf_file import ElfFile
from opduel.causes.collectors.machine_code import LONGEST, references, vector_bytes
from opduel.causes.collectors.symbols import demangle
from opduel.causes.function_names import bare, without_arguments
from opduel.records.cause import CODE_OF

DEEPEST = 12  # calls between a function and the one that it counts for
LONGEST_FUNCTION = 1 << 20  # bytes of code that are looked through
MOST_CLASSES = 4  # that share a method: one that more of them inherit says nothing
_SOURCE = re.compile(rb"[\w./+-]+\.(?:cc|cpp|cxx|c|cu|C)$|[\w./+-]+-inl\.h$")
_CLASS = re.compile(rb"\*?N?(?:St)?(?:\d+[A-Za-z_]\w*)+$")


class StrippedLibrary(ElfFile):
    """A library whose functions have no symbols. Raises OSError, ValueError: as ``ElfFile``."""

    def source_of(self, start: int) -> str:
        """Return the source file, no header, that a function's code refers to most often; empty if it refers to none.

        A compiler moves what is rarely executed, such as the failing branch of a check, to a function of its own.
        """
        addresses, outlined = self._references(start)
        for part in sorted(outlined):
            addresses += self._references(part)[0]
        texts = map(self.text, addresses)
        counts = Counter(_shorten_path(text.decode()) for text in texts if _SOURCE.match(text))
        return min(counts, key=lambda path: (-counts[path], path), default="")

    def _references(self, start: int) -> tuple[list[int], set[int]]:
        """Return the addresses that a function's code takes, and the other functions that it may jump to."""
        size = self.end_of(start) - start
        code = self.read(start, size) if size <= LONGEST_FUNCTION else b""
        addresses, outlined = list[int](), set[int]()
        for instruction, address in references(code, start):
            if instruction == "lea":
                addresses.append(address)
            elif instruction[0] == "j" and instruction != "jmp" and not start <= address < start + size:
                outlined |= {address} & self.function_starts
        return addresses, outlined

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
        owner = owners.get(function, function)
        owner_cost = joined.functions.setdefault(owner, FunctionCost(file=cost.file, line=cost.line))
        owner_cost.add(cost)
        for caller, amount in cost.callers.items():
            if (calling := owners.get(caller, caller)) != owner:
                owner_cost.callers[calling] += amount
    return joined


def _owner(function: FunctionId, profile: CallgrindProfile) -> FunctionId:
    """Return what a function without a symbol counts for."""
    names = (_name(caller) for caller in _callers(function, profile) if caller.library == function.library)
    name = next(filter(None, names), "")
    return FunctionId(CODE_OF + name if name else NAMELESS, function.library)


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
def _name(function: FunctionId) -> str:
    """Return the first that a function has: a source file, a symbol, or a class; empty if none. A source file comes
    before a class: it is the same for what another build has in another function."""
    library = library_at(function.library) if function.address else None
    if library is None:
        return bare(function.name)
    return library.source_of(function.address) or library.class_of(function.address)
