"""Names of native functions: as a sentence shows them, and which are of Python's interpreter."""

import re

from opduel.records.cause import without_clone
from opduel.support.text import clipped

LONGEST_ARGUMENTS = 24  # characters of template arguments
LONGEST_NAME = 120  # characters of a name in the sentence
# Where CPython's own functions are: in its source files, or in its library if there is no debug information.
_INTERPRETER = re.compile(
    r"(?:^|/)(?:Include|Modules|Objects|Parser|Python)/[\w./-]+\.[ch](?::\d+)?$|^(?:lib)?python\d"
)


def is_of_the_interpreter(name: str, where: str) -> bool:
    """Return whether a native function is one of CPython's own: by its place, or by its name if that is not known.
    Some of NumPy's have such names, too (``PyArray_NewFromDescr_int``)."""
    return bool(_INTERPRETER.search(where) if where else re.match(r"_?Py(?:[A-Z]|_)", name))


def bare(name: str) -> str:
    """Return a function's name without its return type, parameters and ``(anonymous namespace)::``, and with ``<...>``
    for long template arguments."""
    name = without_clone(name).replace("(anonymous namespace)::", "")
    if not name.endswith((")", ") const")) or "(" not in name:
        return name
    plain = _without(r"\([^()]*\)", qualified(name))
    return re.sub(rf"<[^<>]{{{LONGEST_ARGUMENTS},}}>", "<...>", plain) or name


def qualified(name: str) -> str:
    """Return a function's name without its return type and its parameters."""
    end = _last_outside_brackets(name, "(", "()")
    name = name[:end] if end >= 0 else name
    return name[1 + _last_outside_brackets(name, " *&", "<>()") :]


def _last_outside_brackets(text: str, characters: str, brackets: str) -> int:
    """Return where the last of some characters is that no brackets enclose, -1 if there is none."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in brackets[1::2]) - (text[at] in brackets[::2])
        if text[at] in characters and depth == 0:
            return at
    return -1


def short_name(text: str) -> str:
    """Return a name or place as a sentence shows it."""
    return clipped(bare(text), LONGEST_NAME)


def without_arguments(name: str) -> str:
    """Return a name without template arguments."""
    return _without(r"<[^<>]*>", qualified(name) if ")" in name else name)


def _without(brackets: str, text: str) -> str:
    """Return a text without what matches, also around what has been removed."""
    while (shorter := re.sub(brackets, "", text)) != text:
        text = shorter
    return text
