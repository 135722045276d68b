"""From a dotted name to the function that it names, within one installed package."""

import builtins
import importlib
import importlib.util
import inspect
import sys
import sysconfig

# Constructors of plain values, for arguments that JSON can't express; nothing else of the standard library.
CONSTRUCTORS = ("bool", "bytes", "complex", "dict", "float", "int", "list", "range", "set", "slice", "str", "tuple")


class MissingOperator(Exception):
    """The build has no such function."""

    kind = "missing"


class UnusableCall(Exception):
    """A call that makes an argument names no function of this build: the case fails, its operator may exist."""


def resolve(name):
    """The function, class or method ``name``, and its owner if that is a class.

    Raises MissingOperator; whatever the package raises when it is imported.
    """
    parts = name.split(".")
    if parts[0] == "builtins" and parts[1:] and parts[1] in CONSTRUCTORS and len(parts) == 2:
        return getattr(builtins, parts[1]), None
    found, owner = imported(parts[0], name), None
    for number, part in enumerate(parts[1:], 1):
        owner, found = found, member(found, parts[:number], part, name)
    if not callable(found):
        raise MissingOperator(f"{name} is a {type(found).__name__}, not a function")
    return found, owner if inspect.isclass(owner) else None


def imported(package, name):
    """The top-level package of ``name``. Raises MissingOperator where it isn't installed, or belongs to Python."""
    if is_standard(package):
        raise MissingOperator(f"{name}: functions of the standard library can't be measured")
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if getattr(error, "name", None) == package:
            raise MissingOperator(f"{name}: this build has no package {package}") from None
        raise


def is_standard(package):
    """Whether a top-level module is Python's own."""
    if package in sys.builtin_module_names or package == "__main__":
        return True
    if hasattr(sys, "stdlib_module_names"):  # Python 3.10
        return package in sys.stdlib_module_names
    spec = importlib.util.find_spec(package)
    origin = getattr(spec, "origin", None) or ""
    return origin.startswith(sysconfig.get_paths()["stdlib"]) and "-packages" not in origin


def member(found, path, part, name):
    """``found.part``, imported if it is a submodule. Raises MissingOperator; other packages' modules that a
    package has imported, and functions and classes of the standard library, are none of its members."""
    try:
        inner = getattr(found, part)
    except AttributeError:
        inner = submodule(found, ".".join([*path, part]), name)
    if inspect.ismodule(inner) and inner.__name__.partition(".")[0] != path[0]:
        raise MissingOperator(f"{name}: {inner.__name__} is a module of another package")
    if inspect.isroutine(inner) or inspect.isclass(inner):
        home = str(getattr(inner, "__module__", None) or "").partition(".")[0]
        if home not in ("", "builtins", path[0]) and is_standard(home):
            raise MissingOperator(f"{name}: {part} belongs to Python's module {home}")
    return inner


def submodule(found, path, name):
    if not inspect.ismodule(found):
        raise MissingOperator(f"{name}: {path} does not exist")
    try:
        return importlib.import_module(path)
    except ImportError as error:
        if path.startswith(getattr(error, "name", None) or path):
            raise MissingOperator(f"{name}: {path} does not exist") from None
        raise


def called(name, args, kwargs):
    """``(function, args)`` of a call: a method's ``self`` is taken out of ``kwargs``, and its own method is called."""
    function, owner = resolve(name)
    if owner is not None and "self" in kwargs:
        made = kwargs.pop("self")
        own = getattr(made, name.rpartition(".")[2], None)
        return (own, args) if callable(own) else (function, [made, *args])
    return function, args
