"""List the public functions of packages: run by path in a build's interpreter. Standard library, Python 3.6 syntax.

The arguments are namespaces: modules, and classes whose methods are listed.  Prints a JSON document on stdout:
    {"version": str,
     "registered": {name: [alias, ...]}        a function's first name -> every name of it
     "functions": {"numpy.sort": {"registered": name, "arguments": [[name, kind], ...], "dtype": bool, "kind": str,
                                  "dtypes": [name, ...] or null}}}
An argument's kind is "positional" (required, by its place), "required", "optional" or "tensors" (any number of them); a
function's is "function", "ufunc", "class" or "method".  "dtypes": those for which a ufunc has a loop.
"""

import ast
import importlib
import inspect
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, which would hide modules

from opduel_common.scripts import answer

DISTRIBUTION_METHODS = ("pdf", "pmf", "cdf", "ppf", "rvs")  # of some twenty that a distribution of scipy.stats has
SPECIAL = re.compile(r"__([ir]?(add|sub|mul|truediv|mod|pow|matmul|and|or|xor)|call|getitem|setitem|eq|lt|neg|abs)__$")
LOOPS = "?bBhHiIlLqQefdgFDGOmM"  # letters of the dtypes for which ufuncs have loops


def object_at(name):
    """Return the module, class or other object of a dotted name, or None if this release has none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        owner, _, last = name.rpartition(".")
        return getattr(object_at(owner), last, None) if owner else None


def public_names(owner):
    """Return the public names of a module, or of the methods of a class."""
    if inspect.isclass(owner):
        return [name for name in dir(owner) if not name.startswith("_") or SPECIAL.match(name)]
    return sorted(set(getattr(owner, "__all__", [name for name in dir(owner) if not name.startswith("_")])))


def is_ufunc(function):
    return all(hasattr(function, name) for name in ("nin", "nout", "types", "reduce"))


def is_distribution(member):
    """Return whether an object is a distribution of scipy.stats, whose ``shapes`` are arguments of its methods."""
    return not inspect.isclass(member) and all(hasattr(member, name) for name in ("shapes", "rvs", "cdf"))


def kind_of(member, owner):
    """Return the kind of a function, or None if it can't be called."""
    if not callable(member) or inspect.ismodule(member):
        return None
    if inspect.isclass(member):
        return None if issubclass(member, BaseException) else "class"
    if is_ufunc(member):
        return "ufunc"
    return "method" if inspect.isclass(owner) or is_distribution(owner) else "function"


def arguments_of(function, kind, owner):
    """Return ``[[name, kind], ...]`` from the signature, the docstring's first line, or its section of parameters."""
    if kind == "ufunc":
        return [[name, "positional"] for name in ufunc_arguments(function)]
    readers = (arguments_from_signature, arguments_from_docstring_line, arguments_from_numpydoc)
    listed = next(listed for listed in (read(function) for read in readers) if listed is not None)
    if is_distribution(owner):
        return distribution_arguments(listed, owner)
    listed = [argument for argument in listed if argument[0] not in ("self", "cls", "$self")]
    is_method = inspect.isclass(owner) and kind == "method" and not inspect.ismethod(function)
    return ([["self", "required"]] if is_method else []) + listed


def distribution_arguments(listed, owner):
    """Return the arguments of a distribution's method, with its shapes in place of ``*args``."""
    shapes = [shape.strip() for shape in (owner.shapes or "").split(",") if shape.strip()]
    own = [[name, kind] for name, kind in listed if kind != "tensors" and name not in (*shapes, "args", "kwds")]
    required = [argument for argument in own if argument[1] != "optional"]
    optional = [argument for argument in own if argument[1] == "optional"]
    return [*required, *([name, "required"] for name in shapes), *optional]


def ufunc_arguments(ufunc):
    """Return the names of a ufunc's inputs from its docstring: the author's line may be the second, after NumPy's."""
    listed = arguments_from_docstring_line(ufunc, 1) or arguments_from_docstring_line(ufunc) or []
    if len(listed) < ufunc.nin:
        return ["x"] if ufunc.nin == 1 else [f"x{i + 1}" for i in range(ufunc.nin)]
    return [name for name, _ in listed][: ufunc.nin]


def arguments_from_signature(function):
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    listed = []
    for parameter in parameters:
        if parameter.kind == parameter.VAR_POSITIONAL:
            listed.append([parameter.name, "tensors"])
        elif parameter.kind != parameter.VAR_KEYWORD:
            required = "positional" if parameter.kind == parameter.POSITIONAL_ONLY else "required"
            listed.append([parameter.name, required if parameter.default is parameter.empty else "optional"])
    bare = [kind for _, kind in listed] == ["tensors"]  # the signature of a decorator, or of a function in C
    return (arguments_from_docstring_line(function) or arguments_from_numpydoc(function) or listed) if bare else listed


def arguments_from_docstring_line(function, paragraph=0):
    """Read ``name(a, b=None, /, *, c)``, as functions in C begin their docstrings, or a paragraph of it."""
    paragraphs = re.split(r"\n\s*\n", (getattr(function, "__doc__", None) or "").strip()) + [""] * (paragraph + 1)
    match = re.match(r"[\w.]+\((.*?)\)\s*(->.*)?$", paragraphs[paragraph].replace("\n", " ").strip())
    if not match:
        return None
    words = match.group(1).replace("[", "").replace("]", "").replace("...", "*rest")
    words = re.sub(r"\(\w+, \*rest\)|\((\w+, )+\*rest\)", "tup", words)
    words = re.sub(r"<[^>]*>", "None", words)
    try:
        signature = ast.parse(f"def f({words}): pass").body[0].args
    except SyntaxError:
        return None
    positional_only = [argument.arg for argument in getattr(signature, "posonlyargs", [])]
    plain = positional_only + [argument.arg for argument in signature.args]
    required_count = len(plain) - len(signature.defaults)
    listed = [
        [name, ("positional" if name in positional_only else "required") if place < required_count else "optional"]
        for place, name in enumerate(plain)
    ]
    if signature.vararg:
        listed.append([signature.vararg.arg, "tensors"])
    keywords = zip(signature.kwonlyargs, signature.kw_defaults)  # noqa: B905 - Python 3.10
    return listed + [[argument.arg, "optional" if value else "required"] for argument, value in keywords]


def arguments_from_numpydoc(function):
    """Read the docstring's section of parameters (numpydoc), optional if their line says "optional" or "default"."""
    text = inspect.cleandoc(getattr(function, "__doc__", None) or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}|\Z)", text, re.M | re.S)
    listed = []
    for names, description in re.findall(r"^(\*{0,2}\w[\w, *]*?) *: *(.*)$", section.group(1), re.M) if section else ():
        kind = "optional" if re.search(r"optional|default", description) else "required"
        for name in map(str.strip, names.split(",")):
            listed.append([name.lstrip("*"), "tensors" if name.startswith("*") else kind])
    return listed


def dtypes_of(ufunc, names):
    """Return the names of the dtypes for which a ufunc has a loop of that dtype alone."""
    loops = [loop.partition("->")[0] for loop in ufunc.types]
    same = {loop[0] for loop in loops if len(set(loop)) == 1}
    return sorted({names[letter] for letter in same if letter in names})


def dtype_names():
    try:
        import numpy
    except ImportError:
        return {}
    return {letter: numpy.dtype(letter).name for letter in LOOPS}


def identity_of(function, name, owner):
    """Return a key that all names of one function share."""
    if inspect.isclass(owner) or is_distribution(owner):
        return name
    return id(function)


def members_of(namespaces):
    """Yield ``(owner, full name, function)`` of every public function, in order."""
    for namespace in namespaces:
        owner = object_at(namespace)
        if owner is None:
            continue
        owners = {namespace: owner}
        if inspect.ismodule(owner):
            members = {namespace + "." + name: getattr(owner, name, None) for name in public_names(owner)}
            owners.update((name, member) for name, member in members.items() if is_distribution(member))
        for owner_name, member_owner in owners.items():
            for name in DISTRIBUTION_METHODS if is_distribution(member_owner) else public_names(member_owner):
                function = getattr(member_owner, name, None)
                is_inherited = name.startswith("__") and function is getattr(object, name, None)
                is_owner = is_distribution(function) and member_owner is owner
                if kind_of(function, member_owner) and not is_inherited and not is_owner:
                    yield member_owner, owner_name + "." + name, function


def functions_of(namespaces):
    """Return ``functions`` and ``registered`` of the document."""
    functions, registered, names = {}, {}, dtype_names()
    members = list(members_of(namespaces))
    first = {}
    for exact in (True, False):  # a function's own name before others, which older releases may lack
        for owner, full, function in members:
            if not exact or getattr(function, "__name__", None) == full.rpartition(".")[2]:
                first.setdefault(identity_of(function, full, owner), full)
    for owner, full, function in members:
        kind, own = kind_of(function, owner), first[identity_of(function, full, owner)]
        arguments = arguments_of(function, kind, owner)
        registered.setdefault(own, []).append(full)
        functions[full] = {
            "registered": own,
            "arguments": arguments,
            "dtype": "dtype" in [name for name, _ in arguments],
            "kind": kind,
            "dtypes": dtypes_of(function, names) if kind == "ufunc" else None,
        }
    return functions, registered


def document(namespaces):
    packages = dict.fromkeys(name.partition(".")[0] for name in namespaces)
    functions, registered = functions_of(namespaces)
    versions = [getattr(object_at(name), "__version__", "") for name in packages]
    return {"version": " ".join(versions), "registered": registered, "functions": functions}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(document, sys.argv[1:])
