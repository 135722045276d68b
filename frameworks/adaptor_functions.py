"""Check by its source that an adaptor has the functions that a run needs, before anything is built."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from opduel.records import UsageError

# Functions that a worker calls (docs/how-to/builds.md), with their arguments.
FUNCTIONS: Mapping[str, str] = {
    "versions": "versions()",
    "make_call": "make_call(case, seed)",
    "profile": "profile(call, calls)",
    "results": "results(case, seed, folder, limit)",
    "memory": "memory(case, seed, calls)",
    "cpu_time": "cpu_time(case, seed)",
    "value": "value(case, seed)",
    "write_profile": "write_profile(call, calls, folder, name)",
}
_ALWAYS = ("versions", "make_call")
HERE = Path(__file__).resolve().parent


def require_functions(adaptor: Path, needed: Mapping[str, str]) -> None:
    """Check that an adaptor, a file or a package, has the functions that every run calls, and those ``needed`` (by
    name, the option or the spec's field that needs it). Raises UsageError: one is missing, or the source can't be read.
    """
    source, names = _source(adaptor), adaptor_names(adaptor)
    if "*" in names:
        return  # it may have any function
    for name in (*_ALWAYS, *needed):
        if name in names:
            continue
        if name in needed and adaptor.is_relative_to(HERE):  # a framework of opduel's own, which the user can't change
            shipped = adaptor.relative_to(HERE).parts[0]
            raise UsageError(f"{needed[name]}: the framework {shipped} doesn't offer this: leave it out")
        needed_by = f"{needed[name]}: " if name in needed else ""
        instead = "add it, or leave the option out" if name in needed else "add it"
        raise UsageError(f"{needed_by}{source}: the adaptor has no function {FUNCTIONS[name]}: {instead}")


def adaptor_names(adaptor: Path) -> frozenset[str]:
    """Return the names that the adaptor, a file or a package, defines or imports; ``*`` for all of another module.
    Raises UsageError: the source can't be read."""
    return frozenset(_names(_parsed(_source(adaptor))))


def _source(adaptor: Path) -> Path:
    return adaptor / "__init__.py" if adaptor.is_dir() else adaptor


def _parsed(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_text(encoding="utf-8"), str(source))
    except (OSError, SyntaxError, ValueError) as error:  # the last: it isn't UTF-8
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{source}: the adaptor can't be read ({reason}): correct it") from None


def _names(module: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines or imports, also in a condition or ``try``; ``*`` for all of another."""
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (imported.asname or imported.name for imported in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from _names(node)
