"""Names of native functions: as a sentence shows them, and whether they are of Python's interpreter."""

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
    """Return a function's name without its return type, its parameters and ``(anonymous namespace)::``, and with
    ``<...>`` for long template arguments."""
    name = without_clone(name).replace("(anonymous namespace)::", "")
    if not name.endswith((")", ") const")) or "(" not in name:
        return name
    letters, depth, angle = "", 0, 0
    for char in name:
        depth += char == "("
        angle += char == "<"
        if not depth:
            letters += "\0" if angle and char == " " else char
        angle -= char == ">"
        depth -= char == ")"
    letters = letters.removesuffix(" const").rpartition(" ")[2].replace("\0", " ")
    return re.sub(rf"<[^<>]{{{LONGEST_ARGUMENTS},}}>", "<...>", letters) or name


def short_name(text: str) -> str:
    """Return a name or place as a sentence shows it."""
    return clipped(bare(text), LONGEST_NAME)
