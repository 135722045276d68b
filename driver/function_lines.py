"""Which lines of a source file are which function's: by Python's parser, or by how definitions are written."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence

from opduel.driver.git.patch import Hunk

# Words that begin a statement, and so no definition, before ``name(``.
_STATEMENTS = frozenset(("return", "else", "new", "delete", "throw", "case", "goto", "await", "yield", "in", "not"))
_TOP_LEVEL = re.compile(r"[A-Za-z_/#\[]")  # begins a line of C that is within no function: its body is indented


def function_ranges(text: str) -> dict[str, range] | None:
    """The functions of a Python file: ``Class.method`` -> its lines, from 1 on, decorators included. Of those with one
    name, the last. None: this Python can't parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(_functions(ast.parse(text), ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _functions(node: ast.AST, within: str) -> Iterator[tuple[str, range]]:
    for child in ast.iter_child_nodes(node):
        name = within
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{child.name}" if within else child.name
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
            yield name, range(first, (child.end_lineno or first) + 1)
        yield from _functions(child, name)


def defines(line: str, names: str) -> bool:
    """Whether a line begins the definition of a function with one of these names (a pattern), by the look of it.

    Its type is before it, or it stands at the line's beginning: a call has neither, or ends with a semicolon.
    """
    if re.match(rf"\s*(?:async\s+)?(?:def|cdef|cpdef)\b[^=]*?{names}\s*\(", line):
        return True
    found = re.match(rf"([\w:<>,*&~\[\]\s]*?){names}\s*(?:<[^;()]*>\s*)?\(", line)
    if found is None or line.rstrip().endswith(";"):
        return False
    words = found[1].split()
    if words and words[0] in _STATEMENTS:
        return False
    return not line[:1].isspace() or bool(re.match(r"\s*[\w:<>,*&\[\]]+\s+\S*$|\s*(?:[\w:<>,*&\[\]]+\s+)+$", found[1]))


def changes_function(hunk: Hunk, names: str) -> bool:
    """Whether changed lines lie in a function with one of these names, or begin it. They lie in the one that git names
    above them, unless they begin something new at the top level."""
    if any(defines(line, names) for line in hunk.lines):
        return True
    firsts = [line for line in map(_first, (hunk.removed, hunk.added)) if line]
    inside = any(not _TOP_LEVEL.match(line) for line in firsts)
    return inside and re.search(rf"{names}\s*(?:<[^;()]*>\s*)?\(", hunk.heading) is not None


def _first(lines: Sequence[str]) -> str:
    """The first that isn't blank."""
    return next((line for line in lines if line.strip()), "")
