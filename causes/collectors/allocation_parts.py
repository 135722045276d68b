"""Divides what stacks allocate among the parts of a call, by names that are the same for every build."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping

from opduel.causes.collectors.massif_file import UNKNOWN, Allocated, Stack
from opduel.records.cause import CODE_OF, Part

# Functions that allocate for others: what they allocate is of those that call them. Of C, C++, Python and NumPy, and of
# allocators that go by these names; and C++'s standard library, whose containers allocate.
_ALLOCATES = re.compile(
    r"\w*(?:malloc|calloc|realloc|memalign|aligned_alloc)\w*$|operator new\b|(?:std|__gnu_cxx)::|strn?dup$"
    r"|\w*(?:Malloc|Calloc|Realloc|RawStrdup)$|PyDataMem_\w+$|\w*npy_alloc_cache\w*$"
    r"|(?:__)?mmap(?:64)?$|mremap$|s?brk$|__sbrk$|(?:__default|__glibc)_?morecore$|(?:new|grow)_heap\b|arena_get2\b"
)
_INTERPRETER = re.compile(r"_?Py(?:Eval|Object|Vectorcall|Run|Function|CFunction|Method)?_\w+$|cfunction_\w+$")
NOWHERE = "code without symbols"


def part_name(stack: Stack) -> tuple[str, str, str]:
    """Return the function that a stack's memory is allocated for, the file that it is defined in, and its caller.

    Code without symbols counts for the function with one that calls it, unless that is Python's interpreter.
    """
    inwards = list(reversed(stack))  # from the function that allocates to its callers
    first = next(
        (place for place, function in enumerate(inwards) if not _ALLOCATES.match(function.name)), len(inwards) - 1
    )
    with_name = next((place for place in range(first, len(inwards)) if inwards[place].name != UNKNOWN), None)
    if with_name is None:
        return NOWHERE, "", ""
    function = inwards[with_name]
    callers = (outer.name for outer in inwards[with_name + 1 :] if outer.name not in (UNKNOWN, function.name))
    caller = next(callers, "")
    if with_name == first:
        return function.name, function.file, caller
    if _INTERPRETER.match(function.name):
        return NOWHERE, "", function.name
    return CODE_OF + function.name, "", caller


def parts_of(stacks: Mapping[Stack, Allocated], calls: int) -> tuple[dict[str, Part], dict[str, Part]]:
    """Return two divisions by function: of the allocations, and of the allocated bytes (with the allocations as
    ``calls`` of the part), per call of the case, of which there were ``calls``."""
    sizes, blocks, files = Counter[str](), Counter[str](), dict[str, str]()
    callers: dict[str, Counter[str]] = defaultdict(Counter)
    for stack, amount in sorted(stacks.items(), key=lambda item: (-item[1].size, item[0])):
        name, file, caller = part_name(stack)
        files.setdefault(name, file)
        sizes[name] += amount.size
        blocks[name] += amount.blocks
        if caller and amount.blocks:
            callers[name][caller] += amount.blocks
    shares = {
        name: {caller: number / callers[name].total() for caller, number in callers[name].items()} for name in files
    }
    return (
        {name: Part(blocks[name] / calls, where=file, callers=shares[name]) for name, file in files.items()},
        {name: Part(sizes[name] / calls, blocks[name] / calls, file, shares[name]) for name, file in files.items()},
    )
