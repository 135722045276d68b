"""Find a function by its dotted name, within one installed package."""

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
    """The build lacks a function that makes an argument: the case fails, although its operator may exist."""


def resolve(name):
    """Return the function, class or method ``name``, and its owner if that is a class. Raise MissingOperator, and
    whatever the package raises when it is imported."""
    parts = name.split(".")
    if parts[0] == "builtins" and parts[1:] and parts[1] in CONSTRUCTORS and len(parts) == 2:
        return getattr(builtins, parts[1]), None
    function, owner = import_package(parts[0], name), None
    for number, part in enumerate(parts[1:], 1):
        owner, function = function, member(function, parts[:number], part, name)
    if not callable(function):
        raise MissingOperator(f"{name} is a {type(function).__name__}, not a function")
    return function, owner if inspect.isclass(owner) else None


def import_package(package, name):
    """Import the top-level package of ``name``. Raise MissingOperator if it isn't installed, or belongs to Python."""
    if is_standard(package):
        raise MissingOperator(f"{name}: functions of the standard library can't be measured")
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if getattr(error, "name", None) == package:
            raise MissingOperator(f"{name}: this build has no package {package}") from None
        raise


def is_standard(package):
    """Return whether a top-level module belongs to Python itself."""
    if package in sys.builtin_module_names or package == "__main__":
        return True
    if hasattr(sys, "stdlib_module_names"):  # Python 3.10
        return package in sys.stdlib_module_names
    spec = importlib.util.find_spec(package)
    origin = getattr(spec, "origin", None) or ""
    return origin.startswith(sysconfig.get_paths()["stdlib"]) and "-packages" not in origin


def member(container, path, part, name):
    """Return ``container.part``, importing it if it is a submodule. Raise MissingOperator if there is none, or if it is
    a module of another package, or belongs to the standard library."""
    try:
        inner = getattr(container, part)
    except AttributeError:
        inner = submodule(container, ".".join([*path, part]), name)
    if inspect.ismodule(inner) and inner.__name__.partition(".")[0] != path[0]:
        raise MissingOperator(f"{name}: {inner.__name__} is a module of another package")
    if inspect.isroutine(inner) or inspect.isclass(inner):
        home = str(getattr(inner, "__module__", None) or "").partition(".")[0]
        if home not in ("", "builtins", path[0]) and is_standard(home):
            raise MissingOperator(f"{name}: {part} belongs to Python's module {home}")
    return inner


def submodule(container, path, name):
    if not inspect.ismodule(container):
        raise MissingOperator(f"{name}: {path} does not exist")
    try:
        return importlib.import_module(path)
    except ImportError as error:
        if path.startswith(getattr(error, "name", None) or path):
            raise MissingOperator(f"{name}: {path} does not exist") from None
        raise


def constructor_parameters(kind):
    """Return the parameters of a class's constructor in order, with its bases' if it takes ``**kwargs``."""
    parameters = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base):
            continue
        own = list(inspect.signature(base.__init__).parameters.values())[1:]
        for parameter in own:
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                parameters.setdefault(parameter.name, parameter)
        if not any(parameter.kind == parameter.VAR_KEYWORD for parameter in own):
            break
    return list(parameters.values())


def constructor_names(kind):
    """Return the names of a constructor's parameters, in order."""
    return [parameter.name for parameter in constructor_parameters(kind)]


def resolve_call(name, args, kwargs):
    """Return ``(function, args)`` of a call; a method is taken from ``self`` in ``kwargs``, if given."""
    function, owner = resolve(name)
    if owner is not None and "self" in kwargs:
        instance = kwargs.pop("self")
        own = getattr(instance, name.rpartition(".")[2], None)
        return (own, args) if callable(own) else (function, [instance, *args])
    return function, args
