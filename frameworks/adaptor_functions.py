"""The functions that an adaptor has, read from its source: what is missing is said before anything is built."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from opduel.records import UsageError

# What a worker calls (docs/how-to/builds.md), and how.
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
    """See that an adaptor, a file or a package, has the functions that every run calls, and those ``needed``: function
    -> the option, or the spec's field, that needs it.

    Raises:
        UsageError: one is missing, or the source can't be read.
    """
    source, names = _source(adaptor), adaptor_names(adaptor)
    if "*" in names:
        return  # it may have any
    for name in (*_ALWAYS, *needed):
        if name in names:
            continue
        if name in needed and adaptor.is_relative_to(HERE):  # one of ours, whose source is nobody's to change
            shipped = adaptor.relative_to(HERE).parts[0]
            raise UsageError(f"{needed[name]}: the framework {shipped} doesn't offer this: leave it out")
        asked = f"{needed[name]}: " if name in needed else ""
        instead = "add it, or leave the option out" if name in needed else "add it"
        raise UsageError(f"{asked}{source}: the adaptor has no function {FUNCTIONS[name]}: {instead}")


def adaptor_names(adaptor: Path) -> frozenset[str]:
    """What the adaptor, a file or a package, defines or imports; ``*`` for all of another module.

    Raises:
        UsageError: the source can't be read.
    """
    return frozenset(_names(_parsed(_source(adaptor))))


def _source(adaptor: Path) -> Path:
    return adaptor / "__init__.py" if adaptor.is_dir() else adaptor


def _parsed(source: Path) -> ast.Module:
    try:
        return ast.parse(source.read_text(encoding="utf-8"), str(source))
    except OSError as error:
        raise UsageError(f"{source}: the adaptor can't be read ({error.strerror}): correct Framework.adaptor") from None
    except SyntaxError as error:
        raise UsageError(
            f"{source}, line {error.lineno}: the adaptor is not Python ({error.msg}): correct it"
        ) from None
    except ValueError:
        raise UsageError(f"{source}: the adaptor is not UTF-8 text: save it as UTF-8") from None


def _names(module: ast.AST) -> Iterator[str]:
    """What a module defines or imports, also within a condition or ``try``; ``*`` for all of another module."""
    for node in ast.iter_child_nodes(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (one.asname or one.name for one in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from _names(node)
