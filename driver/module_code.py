"""Take a Python file apart into functions and all else, and find what differs between two files. Pure.

Comments, docstrings, versions, and code for type checkers alone don't count.
"""

import ast
import builtins
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opduel.driver.function_lines import UNPARSABLE, lines_of, parse_python

_STAR, _EXPORTS = "*", "__all__"
# Names on which no time depends.
_VERSIONS = re.compile(r"_*(full_|short_)?version(_tuple|_info|_json)?_*|_*commit_id_*|git_revision|__author__")
# In a dump of code: names of what compiles functions, so that Python doesn't see them run.
_COMPILERS = re.compile(r"(?:id|attr)='(?:(?:\w+_)?n?jit(?:able|class)?|(?:gu)?vectorize|cfunc|stencil)'")
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class ModuleCode:
    """The functions and methods of a file, name -> their sources, with what they define themselves; and their lines,
    from 1 on. ``statements``: all others."""

    functions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    ranges: Sequence[tuple[range, str]] = ()
    statements: Sequence[ast.stmt] = ()

    @classmethod
    def of(cls, text: bytes) -> "ModuleCode | None":
        """Return a file's code; None if this Python can't parse it."""
        try:
            functions = _Functions()
            statements = functions.visit(_WithoutEffect().visit(parse_python(text))).body
        except UNPARSABLE:
            return None
        return cls(functions.sources, functions.ranges, statements)

    def name_at(self, line: int) -> str:
        """Return the function that has the line, or an empty name."""
        return next((name for lines, name in self.ranges if line in lines), "")

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Tell whether any of the code, dumped, matches."""
        sources = [source for sources in self.functions.values() for source in sources]
        return any(map(pattern.search, [*sources, *map(ast.dump, self.statements)]))


@dataclass(frozen=True)
class ModuleChange:
    """What differs between two files: ``functions`` by their names; ``is_deeper``: other code, which reaches all that
    imports the file; ``adds``: names that only one of them has."""

    functions: frozenset[str] = frozenset()
    is_deeper: bool = False
    adds: bool = False


def compare_modules(path: str, old: ModuleCode | None, new: ModuleCode | None) -> ModuleChange:
    """Compare a file on both sides; None for what can't be parsed. ``path``: from the folder that Python imports from.

    A name that comes, and stood for nothing before, is no deeper change: unchanged code can't have used it. Nor is one
    that goes, if nothing in the file uses it.
    """
    if old is None or new is None:
        return ModuleChange(is_deeper=True)
    names = old.functions.keys() | new.functions.keys()
    functions = frozenset(name for name in names if old.functions.get(name) != new.functions.get(name))
    before, after = _Bindings(old.statements), _Bindings(new.statements)
    new_names, lost_names = after.names.keys() - before.names.keys(), before.names.keys() - after.names.keys()
    is_deeper = (
        before.effects != after.effects
        or any(before.names[name] != after.names[name] for name in before.names.keys() & after.names.keys())
        or any(name in _BUILTINS or before.stars for name in new_names)
        or any(new.has(re.compile(rf"\bid={name!r}")) for name in lost_names)
        or not _are_own(path, before.stars, after.stars)
        or (bool(functions) and (old.has(_COMPILERS) or new.has(_COMPILERS)))
    )
    is_one_sided = any((name in old.functions) != (name in new.functions) for name in functions)
    return ModuleChange(functions, is_deeper, is_one_sided or before.statements != after.statements)


def _are_own(path: str, old: Sequence[str], new: Sequence[str]) -> bool:
    """Tell whether star imports only came, and only from the file's own package."""
    top = path.partition("/")[0]
    added = Counter(new) - Counter(old)
    return not Counter(old) - Counter(new) and all(name[0] == "." or name.partition(".")[0] == top for name in added)


class _Bindings:
    """The names that a file's statements bind, apart from functions and versions: name -> what it stands for.

    ``stars``: modules of which all names are imported. ``effects``: statements that do more than bind names.
    """

    def __init__(self, statements: Sequence[ast.stmt]) -> None:
        self.names: dict[str, dict[str, None]] = {}
        self.stars: list[str] = []
        self.effects: list[str] = []
        self.statements: list[str] = []
        for statement in statements:
            bound = list(_bound(statement))
            if bound and all(_VERSIONS.fullmatch(name) for name, _ in bound):
                continue
            self.statements.append(ast.dump(statement))
            if not bound:
                self.effects.append(self.statements[-1])
            for name, meaning in bound:
                if name == _STAR:
                    self.stars.append(meaning)
                elif name != _EXPORTS:
                    self.names.setdefault(name, {})[meaning] = None


def _bound(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield each name that a statement binds, and what it stands for; nothing if it may do more."""
    match statement:
        case ast.Import():
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                yield alias.asname or top, alias.name if alias.asname else top
        case ast.ImportFrom():
            module = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                yield (_STAR, module) if alias.name == _STAR else (alias.asname or alias.name, f"{module} {alias.name}")
        case ast.ClassDef():
            yield statement.name, ast.dump(statement)
        case ast.Assign():
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if len(names) == len(statement.targets):
                yield from ((name, ast.dump(statement.value)) for name in names)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, ast.dump(value)
        case ast.AugAssign(target=ast.Name(id=name)) if name == _EXPORTS:
            yield name, ast.dump(statement.value)


class _WithoutEffect(ast.NodeTransformer):
    """Removes what does nothing when it is executed: docstrings, and code for type checkers."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        name = node.test.attr if isinstance(node.test, ast.Attribute) else getattr(node.test, "id", "")
        return None if name == "TYPE_CHECKING" and not node.orelse else self.generic_visit(node)


class _Functions(ast.NodeTransformer):
    """Takes functions and methods out of a file."""

    def __init__(self) -> None:
        self.sources: dict[str, list[str]] = {}
        self.ranges: list[tuple[range, str]] = []
        self._class = ""

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        name = self._class + node.name
        self.ranges.append((lines_of(node), name))
        self.sources.setdefault(name, []).append(ast.dump(node))

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        outer, self._class = self._class, f"{self._class}{node.name}."
        node.body = [child for child in map(self.visit, node.body) if child is not None]
        self._class = outer
        return node
