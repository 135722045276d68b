"""How many cases a checkout's suite has, as far as its files say it without being run, and the time that they need."""

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

from opduel.commands.checkout import OwnSuite
from opduel.driver.suites.source import find_benchmarks
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text
from opduel.support.project_file import top_of_checkout
from opduel.support.text import counted

CASE_S = 4.0  # on a shared runner: twice what a case takes on a quiet machine (docs/explanation/proof.md)
SHORTEST_S, LONGEST_S = 180, 1200  # of a time budget for a pull request
_OF_ASV = re.compile(r"(time|timeraw|track|mem|peakmem)_.+|(Time|Timeraw|Track|Mem|PeakMem)[A-Z_].+")
_FIXTURE = re.compile(r"(codspeed_)?benchmark")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Constants = Mapping[str, ast.expr]  # what a module or a class assigns to names
Fixtures = Mapping[str, tuple[Sequence[str], int | None]]  # what a fixture uses, and the number of its params


@dataclass(frozen=True)
class SuiteSize:
    """The number of a suite's cases; at least so many if not all parameters could be counted."""

    cases: int
    is_exact: bool = True

    @property
    def words(self) -> str:
        """The number as people say it."""
        return f"{'about' if self.is_exact else 'at least'} {counted(self.cases, 'case')}"

    @property
    def needed_s(self) -> float:
        """Seconds for all cases on a shared runner, where a change reaches all."""
        return self.cases * CASE_S

    @property
    def fits(self) -> bool:
        """Whether the time budget is enough for all cases."""
        return self.needed_s <= LONGEST_S

    @property
    def budget_s(self) -> int:
        """The time budget that fits, in seconds: full minutes, and not too many for a pull request."""
        return min(max(SHORTEST_S, math.ceil(self.needed_s / 60) * 60), LONGEST_S)


def size_of(suite: OwnSuite) -> SuiteSize:
    """Return the size of a suite; none of its files is executed. A file that can't be read counts nothing."""
    try:
        files = suite.files or sorted(find_benchmarks(suite.folder)[0].rglob("*.py"))
    except UsageError:  # which measuring reports
        files = []
    sets: list[int | None] = []
    for path in files:
        for module in _parsed(path):
            sets += _count_tests(module, _shared_fixtures(path)) if suite.files else _count_benchmarks(module)
    return SuiteSize(sum(1 if number is None else number for number in sets), None not in sets)


def _parsed(path: Path) -> Iterator[ast.Module]:
    """Yield a file's module, nothing if it can't be read."""
    with suppress(UnreadableError, SyntaxError, ValueError, RecursionError):
        yield ast.parse(read_text(path, pipes=False))


def _shared_fixtures(path: Path) -> Fixtures:
    """Return the fixtures for a file's tests in conftest.py beside it and in the folders above, up to the repository's
    top; the nearest of a name."""
    top = top_of_checkout(path.parent) or path.parent
    places = [place for place in path.parents if place.is_relative_to(top)]
    modules = [module for place in reversed(places) for module in _parsed(place / "conftest.py")]
    return {name: fixture for module in modules for name, fixture in _fixtures(module).items()}


def _fixtures(module: ast.Module) -> Fixtures:
    constants, fixtures = _assigned(module.body), {}
    for node in module.body:
        for mark in node.decorator_list if isinstance(node, _FUNCTIONS) else ():
            if _name(mark) == "fixture" and isinstance(node, _FUNCTIONS):
                keywords = mark.keywords if isinstance(mark, ast.Call) else ()
                params = [_length(keyword.value, constants) for keyword in keywords if keyword.arg == "params"]
                fixtures[node.name] = _arguments(node), _product(params)
    return fixtures


def _count_benchmarks(module: ast.Module) -> Iterator[int | None]:
    """Yield for each of a module's benchmarks for asv the number of its sets of parameters; None if that isn't plain.
    Base classes are followed within the module."""
    constants = _assigned(module.body)
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    for node in _public(module.body):
        if isinstance(node, _FUNCTIONS) and _OF_ASV.fullmatch(node.name):
            yield _sets(constants.get(f"{node.name}.params"), constants) if _is_plain(node) else None
        elif isinstance(node, ast.ClassDef):
            bodies = [base.body for base in _with_bases(node, classes)]
            own = {key: value for body in reversed(bodies) for key, value in _assigned(body).items()}
            methods = {item.name: item for body in reversed(bodies) for item in body if isinstance(item, _FUNCTIONS)}
            number = _sets(own.get("params"), {**constants, **own})
            benchmarks = [method for name, method in methods.items() if _OF_ASV.fullmatch(name)]
            yield from (number if _is_plain(method) else None for method in benchmarks)


def _is_plain(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether no decorator with arguments may set parameters."""
    return not any(isinstance(decorator, ast.Call) for decorator in function.decorator_list)


def _count_tests(module: ast.Module, shared: Fixtures) -> Iterator[int | None]:
    """Yield for each of a module's timed tests for pytest the number of its sets of parameters, its fixtures' included;
    None if that isn't plain. In a module without any by itself, whose fixtures another one has, all tests are timed."""
    constants, fixtures = _assigned(module.body), {**shared, **_fixtures(module)}
    tests = [(node, node.decorator_list) for node in _public(module.body) if _is_test(node)]
    for owner in module.body:
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("Test"):
            tests += [(node, node.decorator_list + owner.decorator_list) for node in owner.body if _is_test(node)]
    timed_tests = [
        (node, decorators)
        for node, decorators in tests
        if any(map(_FIXTURE.fullmatch, _arguments(node)))
        or any(_FIXTURE.fullmatch(_name(decorator)) for decorator in decorators)
    ]
    for node, decorators in timed_tests or tests:
        marks = [mark for mark in decorators if isinstance(mark, ast.Call) and _name(mark) == "parametrize"]
        lengths = [_length(mark.args[1] if len(mark.args) > 1 else None, constants) for mark in marks]
        replaced = {name for mark in marks if mark.args for name in re.findall(r"\w+", ast.unparse(mark.args[0]))}
        names = list(_arguments(node))
        for name in names:  # which grows
            if name in fixtures and name not in replaced:
                needed, length = fixtures[name]
                lengths.append(length)
                names += [argument for argument in needed if argument not in names]
        yield _product(lengths)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [argument.arg for argument in node.args.args]


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, _FUNCTIONS) and node.name.startswith("test")


def _public(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    named = (node for node in body if isinstance(node, (*_FUNCTIONS, ast.ClassDef)))
    yield from (node for node in named if not node.name.startswith("_"))


def _with_bases(node: ast.ClassDef, classes: Mapping[str, ast.ClassDef], depth: int = 0) -> Iterator[ast.ClassDef]:
    """Yield a class and its base classes in the same module, the nearest first."""
    yield node
    for base in node.bases:
        if depth < len(classes) and (inner := classes.get(_name(base))):
            yield from _with_bases(inner, classes, depth + 1)


def _assigned(body: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Return what is assigned to names, and to attributes of names: ``time_it.params``."""
    assigned: dict[str, ast.expr] = {}
    for node in body:
        if isinstance(node, ast.Assign):
            assigned |= {ast.unparse(target): node.value for target in node.targets}
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            assigned[ast.unparse(node.target)] = node.value
    return assigned


def _name(node: ast.expr) -> str:
    """Return the last name of ``a.b.name(...)``."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _sets(params: ast.expr | None, constants: Constants) -> int | None:
    """Return the number of sets that asv makes of ``params``: a list of values, or one for each parameter."""
    if params is None:
        return 1
    params = _resolved(params, constants)
    if isinstance(params, (ast.List, ast.Tuple)) and params.elts:
        lengths = [_length(value, constants) for value in params.elts]
        if any(length is not None for length in lengths):
            return _product(lengths)
        if isinstance(_resolved(params.elts[0], constants), (ast.Call, ast.ListComp, ast.Name, ast.Subscript)):
            return None  # it may be a list
    return None if any(map(_is_computed, ast.walk(params))) else _length(params, constants)


def _is_computed(node: ast.AST) -> bool:
    """Tell whether a list's values are made where its length is known, and may be lists, too."""
    is_product = isinstance(node, ast.Call) and _name(node) == "product"
    return is_product or isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.BinOp))


def _resolved(node: ast.expr, constants: Constants) -> ast.expr:
    """Return what a name stands for, if it is assigned here."""
    return constants.get(node.id, node) if isinstance(node, ast.Name) else node


def _length(node: ast.expr | None, constants: Constants) -> int | None:
    """Return the number of values of a list that is written out, a name for one, a range, or made of such; None of
    others."""
    node = node and _resolved(node, constants)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return None if any(isinstance(item, ast.Starred) for item in node.elts) else len(node.elts)
    if isinstance(node, ast.Call) and _name(node) in ("list", "tuple", "sorted") and len(node.args) == 1:
        return _length(node.args[0], constants)
    if isinstance(node, ast.Call) and _name(node) == "product" and not node.keywords:
        return _product(_length(argument, constants) for argument in node.args)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)) and not any(part.ifs for part in node.generators):
        return _product(_length(part.iter, constants) for part in node.generators)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        lengths = [_length(side, constants) for side in (node.left, node.right)]
        return None if None in lengths else sum(length for length in lengths if length is not None)
    if isinstance(node, ast.Call) and _name(node) == "range":
        try:
            return len(range(*map(ast.literal_eval, node.args)))
        except (ValueError, TypeError, OverflowError):
            return None
    return None


def _product(numbers: Iterable[int | None]) -> int | None:
    """Return the product; None if a number isn't known."""
    product = 1
    for number in numbers:
        if number is None:
            return None
        product *= number
    return product
