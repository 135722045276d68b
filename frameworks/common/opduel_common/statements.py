"""A statement as a case: Python code and its setup, as timeit takes them.

Runs inside the build: standard library only.  The controller has found the names that neither the code nor Python
defines (``commands/statements.py``): they are modules, if the build has such.
"""

import ast
import builtins
import contextlib
import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import traceback
import types

STATEMENT = "statement"  # the operator of such cases: a function's name has dots
CLOSE = 0.7  # how like another name a misspelt one is
SETUP_FILE, STATEMENT_FILE = "<setup>", "<statement>"  # what tracebacks call their code
IN_SETUP = "in the setup"  # where an error occurred
# What Python says of a name that is missing, and of the module or class in which it was sought.
MISSING = (
    r"cannot import name '(?P<name>\w+)' from '(?P<owner>[\w.]+)'",
    r"No module named '(?:[\w.]+\.)?(?P<name>\w+)'(?P<owner>)",
    r"(?:module )?'?(?P<owner>[\w.]*)'?.* attribute '(?P<name>\w+)'",
    r"name '(?P<name>\w+)' is not defined(?P<owner>)",
)


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
        with names_explained(setup, namespace):
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
    with names_explained(statement, namespace):
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
def names_explained(code, namespace):
    """Within it, the error for a name in the code that this build lacks has the kind "missing", and says which names
    there are that look like it. An error from within the functions that the code calls is raised as it is."""
    try:
        yield
    except (AttributeError, NameError, ImportError) as error:
        owner, name = missing_name(error)
        if not name or not re.search(r"\b%s\b" % name, code) or not is_of_code(error.__traceback__):
            raise
        names = [*namespace, *dir(builtins), *installed_modules()]
        if owner:
            instance = getattr(error, "obj", None)  # since Python 3.10
            names = dir(sys.modules.get(owner) if instance is None else instance)
        owners = packages_with(name) if isinstance(error, NameError) else []
        close = ["%s.%s" % (package, name) for package in owners[:2]]
        close = close or difflib.get_close_matches(name, [word for word in names if word[0] != "_"], 2, CLOSE)
        explained = type(error)("%s: did you mean %s?" % (error, " or ".join(close)) if close else str(error))
        explained.kind = "missing"
        raise explained from None


def missing_name(error):
    """Return the name that the error says is missing, empty if it says none, after the module in which it was sought,
    empty for none."""
    if type(error) not in (AttributeError, NameError, ImportError, ModuleNotFoundError):
        return "", ""  # one of a library's own
    words = next(filter(None, (re.match(pattern, str(error)) for pattern in MISSING)), None)
    return words.group("owner", "name") if words and words.group("owner") != "NoneType" else ("", "")


def is_of_code(trace):
    """Return whether an error was raised by a line of the setup or of the statement, or by the ``__getattr__`` of a
    module, class or object that such a line names."""
    frames = [frame for frame, _ in traceback.walk_tb(trace)]
    while frames[-1].f_code.co_name == "__getattr__":
        frames.pop()
    return frames[-1].f_code.co_filename in (SETUP_FILE, STATEMENT_FILE)


def installed_modules():
    """Return the names of the modules and packages that are installed beside Python's own."""
    return [module[1] for module in pkgutil.iter_modules([path for path in sys.path if "-packages" in path])]


def packages_with(name):
    """Return the installed packages whose own file defines a function or class of this name at its top, or takes it
    from within the package. Nothing is imported."""
    return [package for package in installed_modules() if package[0] != "_" and offers(package, name)]


def offers(package, name):
    """Return whether the file of a package or module offers a name, as `packages_with` looks for it."""
    try:
        path = importlib.util.find_spec(package).origin
        with open(path, encoding="utf-8") as file:
            text = file.read()
        body = ast.parse(text).body if path.endswith(".py") and name in text else []
    except Exception:  # none that Python could read, either
        return False
    imports = [node for top in body for node in ast.walk(top) if isinstance(node, ast.ImportFrom)]
    own = [node for node in imports if node.level or (node.module or "").partition(".")[0] == package]
    names = {alias.asname or alias.name for node in own for alias in node.names}
    return name in names or name in [getattr(node, "name", None) for node in body]


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
