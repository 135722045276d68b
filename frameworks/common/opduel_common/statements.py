"""A statement as a case: Python code and its setup, as timeit takes them.

Runs inside the build: standard library only.  The controller has found the names that neither the code nor Python
defines (``commands/statements.py``): they are modules, if the build has such.
"""

import ast
import contextlib
import importlib
import inspect

STATEMENT = "statement"  # the operator of such cases: a function's name has dots


def statement_call(inputs):
    """Run the setup once, and return a function that executes the statement once.

    The names that the setup makes are the function's globals. Raise what the setup raises, and ValueError for a
    coroutine, of which a call executes nothing.
    """
    setup, statement = inputs.get("setup", ""), inputs["statement"]
    namespace = {"__name__": "__statement__"}
    for name, module in inputs.get("modules", {}).items():
        with contextlib.suppress(ImportError):  # the code says what it misses
            namespace[name] = importlib.import_module(module)
    exec(compile(setup, "<setup>", "exec"), namespace)
    tree = ast.parse("def call(): pass")
    code = ast.parse(statement, "<statement>").body
    changed = sorted(stored_names(code) & set(namespace))  # as in timeit, where both are one function
    if isinstance(code[-1], ast.Expr):
        code[-1] = ast.copy_location(ast.Return(code[-1].value), code[-1])
    tree.body[0].body = ([ast.Global(names=changed)] if changed else []) + code
    exec(compile(ast.fix_missing_locations(tree), "<statement>", "exec"), namespace)
    first = namespace["call"]()
    if inspect.iscoroutine(first):
        first.close()
        raise ValueError("makes a coroutine, of which nothing is executed: write asyncio.run(...)")
    return namespace["call"]


def stored_names(code):
    """Return the names that the code assigns, imports or defines, but for those within functions and classes."""
    names, nodes = set(), list(code)
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        nodes.extend(ast.iter_child_nodes(node))
    return names
