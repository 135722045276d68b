"""What operators a build has: run by path in its own interpreter. Standard library and MXNet, Python 3.6 syntax.

Prints one JSON document on stdout, whatever MXNet prints:
    {"version": str,
     "registered": {name: [alias, ...]}        an operator's own name -> every name that it is registered under
     "functions": {"nd.linalg.gemm2": {"registered": name or null, "arguments": [[name, kind], ...]}}}
An argument's kind is "tensor", "tensors" (a variadic operator's), "required" or "optional".
"""

import ctypes
import importlib.util
import inspect
import json
import os
import sys
import types

sys.path.pop(0)  # this folder: its modules must not hide any of the build's

NAMESPACES = ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd._internal", "np", "np.linalg", "np.random")
NAMESPACES += ("npx", "npx.image", "npx.random", "nd.sparse", "image")
NOT_ARGUMENTS = ("out", "name", "kwargs", "ctx", "device")


def load_operators():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "adaptor", "operators.py")
    spec = importlib.util.spec_from_file_location("opduel_operators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def all_registered(base):
    """Every registered name, sorted; by the C API, which all versions share."""
    count, names = base.mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    base.check_call(base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    return sorted(base.py_str(names[i]) for i in range(count.value))


def own_name(base, alias):
    """The name under which an operator was registered first."""
    handle = base.OpHandle()
    base.check_call(base._LIB.NNGetOpHandle(base.c_str(alias), ctypes.byref(handle)))
    name = ctypes.c_char_p()
    base.check_call(base._LIB.MXSymbolGetAtomicSymbolName(handle, ctypes.byref(name)))
    return base.py_str(name.value)


def kind_of(registered_type):
    if registered_type.startswith(("NDArray", "Symbol")):
        return "tensors" if "[]" in registered_type else "tensor"
    return "required" if "required" in registered_type else "optional"


def parameters_of(function):
    """A function's own parameters: documented signatures are not always those that it takes."""
    try:
        documented = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        documented = []
    if not isinstance(function, types.FunctionType):
        return documented
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    own = list(inspect.signature(bare).parameters.values())
    passes_on = all(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in own)
    return documented if passes_on else own


def arguments_of(function, registered):
    """``[[name, kind], ...]``: the registered ones where the function takes all of them, else its own."""
    parameters = parameters_of(function)
    names = [one.name for one in parameters]
    variadic = any(one.kind == one.VAR_POSITIONAL for one in parameters)
    if registered and (variadic or all(name in names for name in registered)):
        return [[name, kind_of(kind)] for name, kind in registered.items()]
    found = []
    for one in parameters:
        if one.kind == one.VAR_POSITIONAL and not found:
            found.append([one.name, "tensors"])
        elif one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and one.name not in NOT_ARGUMENTS:
            found.append([one.name, "required" if one.default is one.empty else "optional"])
    return found


def functions_of(operators, own_names):
    """Every public function in the namespaces, and the internal ones, by the name that a spec gives it."""
    found = {}
    for namespace in NAMESPACES:
        try:
            module = operators.mx
            for part in namespace.split("."):
                module = getattr(module, part)
        except AttributeError:  # an older release
            continue
        prefixes = operators.REGISTERED_PREFIXES.get(namespace.split(".")[-1] if namespace != "nd" else "", ())
        if namespace.startswith("np"):
            prefixes = tuple("_" + namespace.split(".")[0] + infix for infix in ("_", "i_", "x__")) + prefixes
        for name in sorted(vars(module)):
            function = getattr(module, name)
            public = namespace == "nd._internal" or not name.startswith("_")
            if not public or inspect.isclass(function) or inspect.ismodule(function) or not callable(function):
                continue
            operator = namespace + "." + name
            registered = next((prefix + name for prefix in prefixes if prefix + name in own_names), None)
            found[operator] = {
                "registered": own_names.get(registered),
                "arguments": arguments_of(function, operators.argument_types(operator)),
            }
    return found


def methods_of(operators):
    """The methods and properties of arrays, those that Python's own operators call among them.

    ``self`` is the array.  What a method passes on is not told: rules say it in full.
    """
    found = {}
    for array in operators.ARRAYS:
        root, name = array.split(".")
        kind = getattr(getattr(operators.mx, root, None), name, None)
        for one in dir(kind) if kind else ():
            member = getattr(kind, one)
            if not (isinstance(member, property) or inspect.isfunction(member)):
                continue
            arguments = [["self", "tensor"]]
            if inspect.isfunction(member):
                named = [p for p in parameters_of(member) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
                arguments += [[p.name, "required" if p.default is p.empty else "optional"] for p in named[1:]]
            found[array + "." + one] = {"registered": None, "arguments": arguments}
    return found


def main():
    answer = os.dup(1)
    os.dup2(2, 1)
    operators = load_operators()
    own_names = {alias: own_name(operators.base, alias) for alias in all_registered(operators.base)}
    registered = {}
    for alias in sorted(own_names):
        registered.setdefault(own_names[alias], []).append(alias)
    document = {
        "version": operators.mx.__version__,
        "registered": registered,
        "functions": dict(functions_of(operators, own_names), **methods_of(operators)),
    }
    with os.fdopen(answer, "w") as stream:
        json.dump(document, stream)
    os._exit(0)  # a framework that stumbles on the way out has said all that was asked


if __name__ == "__main__":
    main()
