"""Find the lines of functions in a source file: by Python's parser, or by what a definition looks like."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence

from opduel.driver.git.patch import Hunk

UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
# Words that begin a statement, and so no definition, before ``name(``.
_STATEMENTS = frozenset(("return", "else", "new", "delete", "throw", "case", "goto", "await", "yield", "in", "not"))
_TOP_LEVEL = re.compile(r"[A-Za-z_/#\[]")  # begins a line of C that is within no function: its body is indented


def function_ranges(text: str) -> dict[str, range] | None:
    """Return the functions of a Python file: ``Class.method`` -> its lines, from 1 on, decorators included.

    Of several with one name the last one counts. None if this Python can't parse the file.
    """
    try:
        return dict(_functions(parse_python(text), ""))
    except UNPARSABLE:
        return None


def parse_python(text: str | bytes) -> ast.Module:
    """Parse a file without the warnings that it deserves. Raise one of ``UNPARSABLE`` if this Python can't."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    """Return the lines of a function, decorators included."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return range(first, (function.end_lineno or first) + 1)


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, range]]:
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{child.name}" if within else child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, lines_of(child)
        yield from _functions(child, name)


def defines(line: str, names: str) -> bool:
    """Tell whether a line looks like the start of a definition of a function with one of these names (a pattern).

    Its type precedes it, or it is at the beginning of the line; a call has neither, or ends with a semicolon.
    """
    if re.match(rf"\s*(?:async\s+)?(?:def|cdef|cpdef)\b[^=]*?{names}\s*\(", line):
        return True
    match = re.match(rf"([\w:<>,*&~\[\]\s]*?){names}\s*(?:<[^;()]*>\s*)?\(", line)
    if match is None or line.rstrip().endswith(";"):
        return False
    words = match[1].split()
    if words and words[0] in _STATEMENTS:
        return False
    return not line[:1].isspace() or bool(re.match(r"\s*[\w:<>,*&\[\]]+\s+\S*$|\s*(?:[\w:<>,*&\[\]]+\s+)+$", match[1]))


def changes_function(hunk: Hunk, names: str) -> bool:
    """Tell whether changed lines lie in a function with one of these names (a pattern), or define it.

    They lie in the function that git names in the hunk's heading, unless they begin a new definition at the top level.
    """
    if any(defines(line, names) for line in hunk.lines):
        return True
    firsts = [line for line in map(_first, (hunk.removed, hunk.added)) if line]
    inside = any(not _TOP_LEVEL.match(line) for line in firsts)
    return inside and re.search(rf"{names}\s*(?:<[^;()]*>\s*)?\(", hunk.heading) is not None


def _first(lines: Sequence[str]) -> str:
    """Return the first line that isn't blank, or an empty one."""
    return next((line for line in lines if line.strip()), "")
