"""A statement as a case: Python code and its setup, as timeit takes them.

Runs inside the build: standard library only.  The controller has found the names that neither the code nor Python
defines (``commands/statements.py``): they are modules, if the build has such.
"""

import ast
import contextlib
import importlib
import inspect
import os
import re
import traceback
import types

STATEMENT = "statement"  # the operator of such cases: a function's name has dots
SETUP_FILE, STATEMENT_FILE = "<setup>", "<statement>"  # what tracebacks call their code
IN_SETUP = "in the setup"  # where an error occurred
# What Python says of a name that is missing.
MISSING = re.compile(r"(?:attribute|name|module named) '(?:[\w.]+\.)?(\w+)'")


class NotCalledError(ValueError):
    """A line that names a function alone, of which nothing would be executed."""

    kind = "missing"
    says_all = True


def statement_call(inputs):
    """Run the setup once, and return a function that executes the statement once.

    Both run in the user's folder, if this machine has it. The names that the setup makes are the function's globals.
    Raise what the setup raises, and ValueError for a coroutine, of which a call executes nothing, or a function's name.
    """
    setup, statement = inputs.get("setup", ""), inputs["statement"]
    if os.path.isdir(inputs.get("folder", "")):
        os.chdir(inputs["folder"])
        os.environ["PYTHONSAFEPATH"] = "1"  # Python that the code starts is to import the build's package, too
    namespace = {"__name__": "__statement__"}
    for name, module in inputs.get("modules", {}).items():
        with contextlib.suppress(ImportError):  # the code says what it misses
            namespace[name] = importlib.import_module(module)
    import_submodules(setup, namespace)
    try:
        with missing_names(setup):
            exec(compile(setup, SETUP_FILE, "exec"), namespace)
    except Exception as error:
        error.place = IN_SETUP
        raise
    import_submodules(statement, namespace)
    tree = ast.parse("def call(): pass")
    code = ast.parse(statement, STATEMENT_FILE).body
    changed = sorted(stored_names(code) & set(namespace))  # as in timeit, where both are one function
    if isinstance(code[-1], ast.Expr):
        code[-1] = ast.copy_location(ast.Return(code[-1].value), code[-1])
    tree.body[0].body = ([ast.Global(names=changed)] if changed else []) + code
    exec(compile(ast.fix_missing_locations(tree), STATEMENT_FILE, "exec"), namespace)
    with missing_names(statement):
        first = namespace["call"]()
    if inspect.iscoroutine(first):
        first.close()
        raise ValueError("makes a coroutine, of which nothing is executed: write asyncio.run(...)")
    if callable(first) and re.match(r"\s*[A-Za-z_][\w.]*\s*$", statement):
        raise NotCalledError("names a function and doesn't call it: did you mean %s()?" % statement.strip())
    namespace["call"].operator = STATEMENT  # as profilers show it
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
def missing_names(code):
    """Within it, the error for a name in the code that this build lacks has the kind "missing". An error from within
    the functions that the code calls is raised as it is."""
    try:
        yield
    except (AttributeError, NameError, ImportError) as error:
        name = missing_name(error)
        if name and re.search(r"\b%s\b" % name, code) and is_of_code(error.__traceback__):
            error.kind = "missing"
        raise


def missing_name(error):
    """Return the name that the error says is missing; empty if it says none, or is one of a library's own."""
    if type(error) not in (AttributeError, NameError, ImportError, ModuleNotFoundError):
        return ""
    words = None if str(error).startswith("'NoneType'") else MISSING.search(str(error))
    return words.group(1) if words else ""


def is_of_code(trace):
    """Return whether an error was raised by a line of the setup or of the statement, or by the ``__getattr__`` of a
    module, class or object that such a line names."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    while frames[-1].f_code.co_name == "__getattr__":
        frames.pop()
    return frames[-1].f_code.co_filename in (SETUP_FILE, STATEMENT_FILE)


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
