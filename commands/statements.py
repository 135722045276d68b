"""Statements of a command line as cases, as timeit has them: ``opduel compare A B -s SETUP STATEMENT...``."""

import ast
import builtins
import os
from collections.abc import Iterator, Sequence

from opduel.commands.case_selection import Choice
from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks.python.framework import STATEMENT
from opduel.harness.specs.expand import DEFAULT_TIMEOUT_S
from opduel.records import DEFAULT_METRIC, METRICS, Case, UsageError, case_id_for

# What people call modules; other names that nothing defines are looked up as they are.
ALIASES = {
    "np": "numpy",
    "pd": "pandas",
    "sp": "scipy",
    "plt": "matplotlib.pyplot",
    "xr": "xarray",
    "pl": "polars",
    "tf": "tensorflow",
    "nx": "networkx",
    "sns": "seaborn",
    "gpd": "geopandas",
    "da": "dask.array",
    "dd": "dask.dataframe",
    "jnp": "jax.numpy",
}


def statement_choice(options: HarnessOptions) -> Choice:
    """Return one case for each statement and metric. UsageError: code that is no Python, or a metric that a statement
    doesn't have."""
    cases: dict[str, Case] = {}
    for case in (case for code in dict.fromkeys(options.statement) for case in _cases(code, options)):
        if case.id in cases:
            raise UsageError(f"{options.label('statement')} {case.id}: stands twice, but for white space: leave it out")
        cases[case.id] = case
    return Choice("python", None, list(cases.values()), "statements")


def _cases(statement: str, options: HarnessOptions) -> Iterator[Case]:
    setup = parse_code(options.label("setup"), options.setup or "")
    nodes = [*ast.walk(setup), *ast.walk(parse_code(options.label("statement"), statement, is_line=True))]
    modules = _modules(nodes)
    inputs = {
        "statement": statement,
        "setup": options.setup or "",
        "modules": modules,
        "imports": sorted({*modules.values(), *_imported(nodes)}),
        "folder": os.getcwd(),
    }
    for metric in options.metric or (DEFAULT_METRIC,):
        if not METRICS[metric].sampled:
            raise UsageError(
                f"--metric {metric}: a statement has no outputs to compare: name a function by --operators"
            )
        yield Case(
            id=case_id_for(metric, " ".join(statement.split())),
            operator=STATEMENT,
            direction="",
            inputs=inputs,
            dtype="",
            context="",
            threshold=options.threshold.get(metric, METRICS[metric].threshold),
            timeout_s=options.timeout or DEFAULT_TIMEOUT_S,
            metric=metric,
            mode="",
        )


def parse_code(label: str, code: str, is_line: bool = False) -> ast.Module:
    """Return the code parsed. UsageError, which begins with ``label``: it is no Python, or a line with nothing to
    execute."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        what = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(f"{label} {code}: is no Python code ({what}): correct it") from None
    if is_line and not tree.body:
        raise UsageError(f"{label} {code}: has nothing to execute: give a line of Python")
    return tree


def _modules(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """Return, by name, the modules that names which nothing defines may stand for."""
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return {name: ALIASES.get(name, name) for name in sorted(used - set(_defined(nodes)) - set(dir(builtins)))}


def _defined(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.alias():
                yield (node.asname or node.name).partition(".")[0]
            case ast.ExceptHandler(name=str(name)):
                yield name


def _imported(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
