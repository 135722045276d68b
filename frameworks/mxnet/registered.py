"""List a build's operators: run by path in its interpreter. Standard library and MXNet, Python 3.6 syntax.

Prints one JSON document on stdout:
    {"version": str,
     "registered": {name: [alias, ...]}        an operator's own name -> every name that it is registered under
     "functions": {"nd.linalg.gemm2": {"registered": name or null, "arguments": [[name, kind], ...], "dtype": bool},
                   "gluon.nn.Dense": {"registered": null, "arguments": [...], "dtype": bool, "hybrid": bool}}}
An argument's kind is "tensor", "tensors" (a variadic operator's), "required" or "optional". A block has its
constructor's arguments and the tensors of its call.  "dtype" says whether there is an argument of that name.
"""

import ctypes
import inspect
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, which would hide modules

from opduel_common.names import constructor_names, constructor_parameters
from opduel_common.scripts import answer, list_arguments, load_adaptor

NAMESPACES = ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd._internal", "np", "np.linalg", "np.random")
NAMESPACES += ("npx", "npx.image", "npx.random", "nd.sparse", "image")
NOT_ARGUMENTS = ("out", "name", "kwargs", "ctx", "device")


def all_registered(base):
    """Return every registered name, sorted, by the C API, which all versions share."""
    count, names = base.mx_uint(), ctypes.POINTER(ctypes.c_char_p)()
    base.check_call(base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    return sorted(base.py_str(names[i]) for i in range(count.value))


def own_name(base, alias):
    """Return the name under which an operator was registered first."""
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
    """Return ``[[name, kind], ...]``: the registered arguments if the function takes all of them, else its own."""
    parameters = operators.parameters_of(function)
    variadic = [[parameter.name, "tensors"] for parameter in parameters if parameter.kind == parameter.VAR_POSITIONAL]
    if registered and (variadic or not set(registered) - {parameter.name for parameter in parameters}):
        return [[name, kind_of(kind)] for name, kind in registered.items()]
    comes_first = variadic and parameters[0].name == variadic[0][0]
    return (variadic if comes_first else []) + list_arguments(parameters, NOT_ARGUMENTS)


def states_of(operators, operator, registered):
    """Return ``[[name, kind], ...]`` of states that a graph of the operator can pass, but a call can't."""
    if not registered or any("required" in kind or "[]" in kind for kind in registered.values()):
        return []
    try:
        symbol = getattr(operators.mx.sym, operator.partition(".")[2])(name="graph")
        states = [name[len("graph_") :] for name in symbol.list_auxiliary_states() if name.startswith("graph_")]
    except (AttributeError, TypeError, ValueError, operators.base.MXNetError):
        return []
    return [[name, "optional"] for name in states if name not in registered]


def functions_of(operators, own_names):
    """Describe every public function in the namespaces, and the internal ones, by its name in specs."""
    functions = {}
    for namespace in NAMESPACES:
        module = operators.dotted(operators.mx, namespace)
        if module is None:  # an older release
            continue
        prefixes = operators.REGISTERED_PREFIXES.get(namespace.split(".")[-1] if namespace != "nd" else "", ())
        if namespace.startswith("np"):
            prefixes = tuple("_" + namespace.split(".")[0] + infix for infix in ("_", "i_", "x__")) + prefixes
        for name in sorted(vars(module)):
            function = getattr(module, name)
            is_public = namespace == "nd._internal" or not name.startswith("_")
            if not is_public or inspect.isclass(function) or not callable(function):
                continue
            operator = namespace + "." + name
            registered = next((prefix + name for prefix in prefixes if prefix + name in own_names), None)
            types = operators.argument_types(operator)
            states = states_of(operators, operator, types) if namespace == "nd" else []
            functions[operator] = {
                "registered": own_names.get(registered),
                "arguments": arguments_of(operators, function, types) + states,
                "dtype": operators.takes_dtype(operator, function),
            }
    return functions


def blocks_of(blocks):
    """Describe every block that can be made, by its name in specs."""
    block_descriptions = {}
    listed = [blocks.gluon.Block, blocks.gluon.HybridBlock]  # modules import each other's
    for module in blocks.MODULES:
        place = blocks.dotted(blocks.gluon, module)  # None in an older release
        own = {
            name: kind
            for name, kind in sorted(vars(place).items() if place else ())
            if blocks.is_block_class(kind) and kind not in listed and not name.startswith("_")
        }
        listed += own.values()
        for name, kind in own.items():
            block_descriptions[blocks.ROOT + module + "." + name] = {
                "registered": None,
                "arguments": block_arguments(blocks, kind),
                "dtype": "dtype" in constructor_names(kind),
                "hybrid": issubclass(kind, blocks.gluon.HybridBlock),
            }
    return block_descriptions


def block_arguments(blocks, kind):
    """Return ``[[name, kind], ...]`` of the call, then of the constructor, then ``layers`` and ``unroll``.

    The adaptor makes recurrent blocks' states.  An argument that the constructor makes an attribute is a parameter.
    """
    is_hybrid = issubclass(kind, blocks.gluon.HybridBlock)
    own = is_hybrid and kind.hybrid_forward is not blocks.gluon.HybridBlock.hybrid_forward
    parameters = inspect.signature(kind.hybrid_forward if own else kind.forward).parameters
    call = list(parameters.values())[2 if own else 1 :]  # self, and of hybrid_forward F
    attribute_names = set()
    for base in kind.__mro__:
        attribute_names.update(getattr(getattr(vars(base).get("__init__"), "__code__", None), "co_names", ()))
    arguments = []
    for number, parameter in enumerate(call):
        name = "data" if number == 0 and parameter.name in ("x", "inputs", "args") else parameter.name
        is_tensor = number == 0 or parameter.kind == parameter.POSITIONAL_OR_KEYWORD
        if is_tensor and name != "states" and name not in attribute_names:
            arguments.append([name, "tensor" if parameter.default is parameter.empty else "optional"])
    own_names = inspect.signature(kind.__init__).parameters
    for name, needed in list_arguments(constructor_parameters(kind), ("prefix", "params")):
        arguments.append([name, needed if name in own_names else "optional"])  # a class passes what its bases require
    if hasattr(kind, "add"):
        arguments.append([blocks.LAYERS, "required"])
    if issubclass(kind, blocks.gluon.rnn.RecurrentCell):
        arguments.append([blocks.UNROLL, "optional"])
    return arguments


def objects_of(objects):
    """Describe every metric, initializer and the like that can be used, by its name in specs."""
    objects_by_name = {}
    for namespace in objects.USES:
        for name in sorted(vars(objects.dotted(objects.mx, namespace))):
            operator = namespace + "." + name
            try:
                parameters = objects.arguments_of(operator)
            except objects.MissingOperator:
                continue
            objects_by_name[operator] = {"registered": None, "arguments": parameters}
    return objects_by_name


def methods_of(operators):
    """Describe the methods and properties of arrays, including those that Python's own operators call.

    ``self`` is the array.  Arguments that a method passes on aren't listed: rules write them out.
    """
    methods = {}
    for array in operators.ARRAYS:
        kind = operators.dotted(operators.mx, array)
        for name in dir(kind) if kind else ():
            member = getattr(kind, name)
            if not (isinstance(member, property) or inspect.isfunction(member)):
                continue
            parameters = operators.parameters_of(member) if inspect.isfunction(member) else []
            arguments = [["self", "tensor"], *list_arguments(parameters)[1:]]
            takes_dtype = operators.takes_dtype(array + "." + name, member)
            methods[array + "." + name] = {"registered": None, "arguments": arguments, "dtype": takes_dtype}
    return methods


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
