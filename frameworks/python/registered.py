"""What public functions packages have: run by path in a build's interpreter. Standard library, Python 3.6 syntax.

Its arguments are namespaces: modules, and classes whose methods are listed.  Prints a JSON document on stdout, whatever
the packages print:
    {"version": str,
     "registered": {name: [alias, ...]}        a function's first name -> every name of it
     "functions": {"numpy.sort": {"registered": name, "arguments": [[name, kind], ...], "dtype": bool, "kind": str,
                                  "dtypes": [name, ...] or null}}}
An argument's kind is "positional" (required, and given by its place), "required", "optional" or "tensors" (any number
of them); a function's is "function", "ufunc", "class" or "method".  "dtypes": those that a ufunc has a loop for.
"""

import ast
import importlib
import inspect
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, whose modules hide the build's

from opduel_common.scripts import answer

DISTRIBUTION_METHODS = ("pdf", "pmf", "cdf", "ppf", "rvs")  # of the twenty or so that each of scipy.stats' has
SPECIAL = re.compile(r"__([ir]?(add|sub|mul|truediv|mod|pow|matmul|and|or|xor)|call|getitem|setitem|eq|lt|neg|abs)__$")
LOOPS = "?bBhHiIlLqQefdgFDGOmM"  # of ufuncs, by their letters; those of a spec's dtypes are looked up


def found_at(name):
    """The module, class or other object of a dotted name; None where this release has none."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found
    return None


def public_names(owner):
    """The public names of a module, or the methods of a class."""
    if inspect.isclass(owner):
        return [name for name in dir(owner) if not name.startswith("_") or SPECIAL.match(name)]
    listed = getattr(owner, "__all__", None)
    return sorted(set(listed if listed is not None else [name for name in dir(owner) if not name.startswith("_")]))


def is_ufunc(function):
    return all(hasattr(function, name) for name in ("nin", "nout", "types", "reduce"))


def is_distribution(found):
    """Whether an object is one of scipy.stats' distributions: what its methods take is in ``shapes``."""
    return not inspect.isclass(found) and hasattr(found, "shapes") and hasattr(found, "rvs") and hasattr(found, "cdf")


def kind_of(found, owner):
    """The kind of a function; None for what can't be called, or is no function of this package."""
    if not callable(found) or inspect.ismodule(found):
        return None
    if inspect.isclass(found):
        return None if issubclass(found, BaseException) else "class"
    if is_ufunc(found):
        return "ufunc"
    return "method" if inspect.isclass(owner) or is_distribution(owner) else "function"


def arguments_of(found, kind, owner):
    """``[[name, kind], ...]``, from the signature, the first line of the docstring, or its section of parameters."""
    if kind == "ufunc":
        return [[name, "positional"] for name in ufunc_arguments(found)]
    listed = from_signature(found)
    if listed is None:
        listed = from_first_line(found)
    if listed is None:
        listed = from_parameters(found)
    if is_distribution(owner):
        return of_distribution(listed, owner)
    listed = [one for one in listed if one[0] not in ("self", "cls", "$self")]
    is_method = inspect.isclass(owner) and kind == "method" and not inspect.ismethod(found)
    return ([["self", "required"]] if is_method else []) + listed


def of_distribution(listed, owner):
    """The arguments of a distribution's method: its shapes in place of ``*args``."""
    shapes = [one.strip() for one in (owner.shapes or "").split(",") if one.strip()]
    own = [one for one in listed if one[1] != "tensors" and one[0] not in shapes and one[0] not in ("args", "kwds")]
    required = [one for one in own if one[1] != "optional"]
    return [*required, *([name, "required"] for name in shapes), *(one for one in own if one[1] == "optional")]


def ufunc_arguments(ufunc):
    """Names of a ufunc's inputs, of its docstring: NumPy's own line is the first, its author's may be the second."""
    listed = from_first_line(ufunc, 1) or from_first_line(ufunc) or []
    names = [name for name, _ in listed][: ufunc.nin]
    if len(names) < ufunc.nin:
        names = ["x"] if ufunc.nin == 1 else [f"x{i + 1}" for i in range(ufunc.nin)]
    return names


def from_signature(found):
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    listed = []
    for one in parameters:
        if one.kind == one.VAR_POSITIONAL:
            listed.append([one.name, "tensors"])
        elif one.kind != one.VAR_KEYWORD:
            required = "positional" if one.kind == one.POSITIONAL_ONLY else "required"
            listed.append([one.name, required if one.default is one.empty else "optional"])
    bare = [kind for _, kind in listed] == ["tensors"]  # a decorator's, or of a function in C
    return (from_first_line(found) or from_parameters(found) or listed) if bare else listed


def from_first_line(found, paragraph=0):
    """From ``name(a, b=None, /, *, c)``, as functions in C begin their docstrings, or one of its paragraphs."""
    paragraphs = re.split(r"\n\s*\n", (getattr(found, "__doc__", None) or "").strip()) + [""] * (paragraph + 1)
    match = re.match(r"[\w.]+\((.*?)\)\s*(->.*)?$", paragraphs[paragraph].replace("\n", " ").strip())
    if not match:
        return None
    words = match.group(1).replace("[", "").replace("]", "").replace("...", "*rest")
    words = re.sub(r"\(\w+, \*rest\)|\((\w+, )+\*rest\)", "tup", words)
    words = re.sub(r"<[^>]*>", "None", words)
    try:
        made = ast.parse(f"def f({words}): pass").body[0].args
    except SyntaxError:
        return None
    only = [one.arg for one in getattr(made, "posonlyargs", [])]
    plain = only + [one.arg for one in made.args]
    first = len(plain) - len(made.defaults)
    listed = [
        [name, ("positional" if name in only else "required") if place < first else "optional"]
        for place, name in enumerate(plain)
    ]
    if made.vararg:
        listed.append([made.vararg.arg, "tensors"])
    keywords = zip(made.kwonlyargs, made.kw_defaults)  # noqa: B905 - Python 3.10
    return listed + [[one.arg, "optional" if value else "required"] for one, value in keywords]


def from_parameters(found):
    """From the section of parameters (numpydoc); those that it calls optional, or gives a default, are that."""
    text = inspect.cleandoc(getattr(found, "__doc__", None) or "")
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}|\Z)", text, re.M | re.S)
    listed = []
    for names, what in re.findall(r"^(\*{0,2}\w[\w, *]*?) *: *(.*)$", section.group(1), re.M) if section else ():
        kind = "optional" if re.search(r"optional|default", what) else "required"
        listed += [
            [name.strip().lstrip("*"), "tensors" if name.strip().startswith("*") else kind] for name in names.split(",")
        ]
    return listed


def dtypes_of(ufunc, names):
    """The dtypes, by name, for which a ufunc has a loop of that dtype alone."""
    loops = [one.partition("->")[0] for one in ufunc.types]
    same = {one[0] for one in loops if len(set(one)) == 1}
    return sorted({names[letter] for letter in same if letter in names})


def dtype_names():
    try:
        import numpy
    except ImportError:
        return {}
    return {letter: numpy.dtype(letter).name for letter in LOOPS}


def identity_of(found, name, owner):
    """What two names of one function have in common."""
    if inspect.isclass(owner) or is_distribution(owner):
        return name
    return id(found)


def members_of(namespaces):
    """``(owner, full name, function)`` of every public function, in order."""
    for namespace in namespaces:
        owner = found_at(namespace)
        if owner is None:
            continue
        owners = [(namespace, owner)]
        if inspect.ismodule(owner):
            named = [(namespace + "." + one, getattr(owner, one, None)) for one in public_names(owner)]
            owners += [(name, one) for name, one in named if is_distribution(one)]
        for place, one in owners:
            for name in DISTRIBUTION_METHODS if is_distribution(one) else public_names(one):
                found = getattr(one, name, None)
                inherited = name.startswith("__") and found is getattr(object, name, None)
                if kind_of(found, one) and not inherited and not (is_distribution(found) and one is owner):
                    yield one, place + "." + name, found


def functions_of(namespaces):
    """``(functions, registered)`` of the document."""
    functions, registered, names = {}, {}, dtype_names()
    members = list(members_of(namespaces))
    first = {}
    for exact in (True, False):  # a function's own name before others, which older releases may lack
        for owner, full, found in members:
            if not exact or getattr(found, "__name__", None) == full.rpartition(".")[2]:
                first.setdefault(identity_of(found, full, owner), full)
    for owner, full, found in members:
        kind, own = kind_of(found, owner), first[identity_of(found, full, owner)]
        arguments = arguments_of(found, kind, owner)
        registered.setdefault(own, []).append(full)
        functions[full] = {
            "registered": own,
            "arguments": arguments,
            "dtype": "dtype" in [name for name, _ in arguments],
            "kind": kind,
            "dtypes": dtypes_of(found, names) if kind == "ufunc" else None,
        }
    return functions, registered


def document(namespaces):
    packages = dict.fromkeys(name.partition(".")[0] for name in namespaces)
    functions, registered = functions_of(namespaces)
    versions = [getattr(found_at(name), "__version__", "") for name in packages]
    return {"version": " ".join(versions), "registered": registered, "functions": functions}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    answer(document, sys.argv[1:])
