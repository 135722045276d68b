"""What operators a build has: run by path in its own interpreter. Standard library and MXNet, Python 3.6 syntax.

Prints one JSON document on stdout, whatever MXNet prints:
    {"version": str,
     "registered": {name: [alias, ...]}        an operator's own name -> every name that it is registered under
     "functions": {"nd.linalg.gemm2": {"registered": name or null, "arguments": [[name, kind], ...], "dtype": bool},
                   "gluon.nn.Dense": {"registered": null, "arguments": [...], "dtype": bool, "hybrid": bool}}}
An argument's kind is "tensor", "tensors" (a variadic operator's), "required" or "optional". Those of a block are its
constructor's and the tensors of its call.  "dtype" says whether it has an argument of that name.
"""

import ctypes
import inspect
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, whose modules hide the build's

from opduel_common.scripts import answer, load_adaptor

NAMESPACES = ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd._internal", "np", "np.linalg", "np.random")
NAMESPACES += ("npx", "npx.image", "npx.random", "nd.sparse", "image")
NOT_ARGUMENTS = ("out", "name", "kwargs", "ctx", "device")


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


def arguments_of(operators, function, registered):
    """``[[name, kind], ...]``: the registered ones where the function takes all of them, else its own."""
    parameters = operators.parameters_of(function)
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


def states_of(operators, operator, registered):
    """``[[name, kind], ...]`` of states that a call can't pass, and a graph of the one operator can."""
    if not registered or any("required" in kind or "[]" in kind for kind in registered.values()):
        return []
    try:
        symbol = getattr(operators.mx.sym, operator.partition(".")[2])(name="graph")
        states = [name[len("graph_") :] for name in symbol.list_auxiliary_states() if name.startswith("graph_")]
    except (AttributeError, TypeError, ValueError, operators.base.MXNetError):
        return []
    return [[name, "optional"] for name in states if name not in registered]


def functions_of(operators, own_names):
    """Every public function in the namespaces, and the internal ones, by the name that a spec gives it."""
    found = {}
    for namespace in NAMESPACES:
        module = operators.dotted(operators.mx, namespace)
        if module is None:  # an older release
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
            types = operators.argument_types(operator)
            states = states_of(operators, operator, types) if namespace == "nd" else []
            found[operator] = {
                "registered": own_names.get(registered),
                "arguments": arguments_of(operators, function, types) + states,
                "dtype": operators.takes_dtype(operator, function),
            }
    return found


def blocks_of(blocks):
    """Every block that can be made, by the name that a spec gives it."""
    found = {}
    seen = [blocks.gluon.Block, blocks.gluon.HybridBlock]  # modules import each other's
    for module in blocks.MODULES:
        place = blocks.dotted(blocks.gluon, module)  # None in an older release
        own = [(name, kind) for name, kind in sorted(vars(place).items()) if kind not in seen] if place else []
        for name, kind in own:
            is_block = inspect.isclass(kind) and issubclass(kind, blocks.gluon.Block)
            if is_block and not name.startswith("_"):
                seen.append(kind)
                found[blocks.ROOT + module + "." + name] = {
                    "registered": None,
                    "arguments": block_arguments(blocks, kind),
                    "dtype": "dtype" in [one.name for one in blocks.constructor_parameters(kind)],
                    "hybrid": issubclass(kind, blocks.gluon.HybridBlock),
                }
    return found


def block_arguments(blocks, kind):
    """``[[name, kind], ...]``: those of the call, then the constructor's, then ours.

    What recurrent blocks begin with is made for them.  What the constructor makes an attribute of is a parameter.
    """
    is_hybrid = issubclass(kind, blocks.gluon.HybridBlock)
    own = is_hybrid and kind.hybrid_forward is not blocks.gluon.HybridBlock.hybrid_forward
    parameters = inspect.signature(kind.hybrid_forward if own else kind.forward).parameters
    call = list(parameters.values())[2 if own else 1 :]  # self, and of hybrid_forward F
    made = set()
    for base in kind.__mro__:
        made.update(getattr(getattr(vars(base).get("__init__"), "__code__", None), "co_names", ()))
    found = []
    for i, one in enumerate(call):
        name = "data" if i == 0 and one.name in ("x", "inputs", "args") else one.name
        if name != "states" and name not in made and (i == 0 or one.kind == one.POSITIONAL_OR_KEYWORD):
            found.append([name, "tensor" if one.default is one.empty else "optional"])
    own_names = inspect.signature(kind.__init__).parameters
    for one in blocks.constructor_parameters(kind):
        required = one.default is one.empty and one.name in own_names  # a class gives its bases what they require
        if one.name not in ("prefix", "params"):
            found.append([one.name, "required" if required else "optional"])
    if hasattr(kind, "add"):
        found.append([blocks.LAYERS, "required"])
    if issubclass(kind, blocks.gluon.rnn.RecurrentCell):
        found.append([blocks.UNROLL, "optional"])
    return found


def objects_of(objects):
    """Every metric, initializer and the like that can be used, by the name that a spec gives it."""
    found = {}
    for namespace in objects.USES:
        for name in sorted(vars(objects.dotted(objects.mx, namespace))):
            operator = namespace + "." + name
            try:
                parameters = objects.parameters_of(operator)
            except objects.MissingOperator:
                continue
            kinds = objects.USES[namespace][0]
            found[operator] = {
                "registered": None,
                "arguments": [
                    [key, ("tensor" if key in kinds else "required") if required else "optional"]
                    for key, required in parameters
                ],
            }
    return found


def methods_of(operators):
    """The methods and properties of arrays, those that Python's own operators call among them.

    ``self`` is the array.  What a method passes on is not told: rules say it in full.
    """
    found = {}
    for array in operators.ARRAYS:
        kind = operators.dotted(operators.mx, array)
        for one in dir(kind) if kind else ():
            member = getattr(kind, one)
            if not (isinstance(member, property) or inspect.isfunction(member)):
                continue
            arguments = [["self", "tensor"]]
            if inspect.isfunction(member):
                named = [p for p in operators.parameters_of(member) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
                arguments += [[p.name, "required" if p.default is p.empty else "optional"] for p in named[1:]]
            takes_dtype = operators.takes_dtype(array + "." + one, member)
            found[array + "." + one] = {"registered": None, "arguments": arguments, "dtype": takes_dtype}
    return found


def document():
    adaptor = load_adaptor(HERE)
    operators = adaptor.operators
    own_names = {alias: own_name(operators.base, alias) for alias in all_registered(operators.base)}
    registered = {}
    for alias in sorted(own_names):
        registered.setdefault(own_names[alias], []).append(alias)
    return {
        "version": operators.mx.__version__,
        "registered": registered,
        "functions": dict(
            functions_of(operators, own_names),
            **methods_of(operators),
            **blocks_of(adaptor.blocks),
            **objects_of(adaptor.objects),
        ),
    }


if __name__ == "__main__":
    answer(document)
