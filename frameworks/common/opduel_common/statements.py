"""A statement as a case: Python code and its setup, as timeit takes them.

Runs inside the build: standard library only.  The controller has found the names that neither the code nor Python
defines (``commands/statements.py``): they are modules, if the build has such.
"""

import ast
import builtins
import contextlib
import difflib
import importlib
import inspect
import re
import sys
import types

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
    import_submodules(setup, namespace)
    with names_explained(setup, namespace):
        exec(compile(setup, "<setup>", "exec"), namespace)
    import_submodules(statement, namespace)
    tree = ast.parse("def call(): pass")
    code = ast.parse(statement, "<statement>").body
    changed = sorted(stored_names(code) & set(namespace))  # as in timeit, where both are one function
    if isinstance(code[-1], ast.Expr):
        code[-1] = ast.copy_location(ast.Return(code[-1].value), code[-1])
    tree.body[0].body = ([ast.Global(names=changed)] if changed else []) + code
    exec(compile(ast.fix_missing_locations(tree), "<statement>", "exec"), namespace)
    with names_explained(statement, namespace):
        first = namespace["call"]()
    if inspect.iscoroutine(first):
        first.close()
        raise ValueError("makes a coroutine, of which nothing is executed: write asyncio.run(...)")
    return namespace["call"]


def import_submodules(code, namespace):
    """Import the modules within packages that the code names, ``package.module.function``, and that nothing has."""
    for node in ast.walk(ast.parse(code)):
        names = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        owner = namespace.get(node.id) if isinstance(node, ast.Name) else None
        for name in reversed(names):
            if not isinstance(owner, types.ModuleType):
                break
            if not hasattr(owner, name):
                with contextlib.suppress(ImportError):  # the code says what it misses
                    importlib.import_module("%s.%s" % (owner.__name__, name))
            owner = getattr(owner, name, None)


@contextlib.contextmanager
def names_explained(code, namespace):
    """Within it, the error for a misspelt name in the code says which names there are that look like it."""
    try:
        yield
    except (AttributeError, NameError) as error:
        words = re.match(r"(?:module )?'?([\w.]*)'?.* attribute '(\w+)'|name '(\w+)' is not defined", str(error))
        name = words and (words.group(2) or words.group(3))
        if not name or not re.search(r"\b%s\b" % name, code):
            raise
        known = [*namespace, *dir(builtins)]
        if words.group(2):
            owner = getattr(error, "obj", None)  # since Python 3.10
            known = dir(sys.modules.get(words.group(1)) if owner is None else owner)
        close = difflib.get_close_matches(name, [word for word in known if word[0] != "_"], 2)
        if not close:
            raise
        raise type(error)("%s: did you mean %s?" % (error, " or ".join(close))) from None


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
