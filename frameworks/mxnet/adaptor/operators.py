"""Find operators by name: the Python functions that users call, and the registry's types of their arguments."""

import ctypes
import inspect
import types

import mxnet as mx
from mxnet import base

from opduel_common.names import MissingOperator
from opduel_common.scripts import list_arguments

ROOTS = ("nd", "np", "npx", "image")
# Registered names carry their namespace as a prefix.
REGISTERED_PREFIXES = {
    "": ("",),
    "linalg": ("_linalg_",),
    "contrib": ("_contrib_",),
    "random": ("_random_", "_sample_"),
    "image": ("_image_",),
    "sparse": ("_sparse_", ""),
    "op": ("",),
    "_internal": ("",),
    "np": ("_np_", "_npi_", ""),
    "npx": ("_npx_", ""),
}
# Arrays, whose methods and properties are operators, too.
ARRAYS = ("nd.NDArray", "np.ndarray")
# Functions that pass their arguments to another operator than the registered one of their name.
OTHER_FUNCTION = ("np.random.multinomial",)


def dotted(place, name):
    """Return what a dotted name such as ``gluon.nn`` stands for in a module or class, or None."""
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def resolve(name):
    """Return the Python function for a name such as ``nd.Convolution`` or ``nd.linalg.gemm2``. Raise ValueError if no
    operator can have this name, MissingOperator if this build has no such operator."""
    namespace, _, last = name.rpartition(".")
    if name.partition(".")[0] not in ROOTS:
        raise ValueError(f"{name}: operators live under {', '.join(ROOTS)}")
    function = dotted(mx, name)
    if function is None:
        raise MissingOperator(f"mxnet {mx.__version__} has no operator {name}")
    if namespace in ARRAYS:
        return method(last, isinstance(function, property))
    if not callable(function) or inspect.isclass(function):
        raise MissingOperator(f"{name} is not an operator")
    return function


def method(name, is_property):
    """Return a function that calls ``self``'s method or reads its property, so that a sparse array's own counts."""

    def read(self):
        return getattr(self, name)

    def call(self, *args, **kwargs):
        return getattr(self, name)(*args, **kwargs)

    return read if is_property else call


def registered_types(name):
    """Return ``{argument: type}`` of a registered operator, or None, by the C API, which all versions share."""
    handle = base.OpHandle()
    try:
        base.check_call(base._LIB.NNGetOpHandle(base.c_str(name), ctypes.byref(handle)))
    except base.MXNetError:
        return None
    text = ctypes.c_char_p()
    count = base.mx_uint()
    names, types, descriptions = [ctypes.POINTER(ctypes.c_char_p)() for _ in range(3)]
    answers = (text, text, count, names, types, descriptions, text, text)
    base.check_call(base._LIB.MXSymbolGetAtomicSymbolInfo(handle, *map(ctypes.byref, answers)))
    return {base.py_str(names[i]): base.py_str(types[i]) for i in range(count.value)}


def argument_types(operator):
    """Return ``{argument: type}`` of an operator by the user's name; empty for a function written in Python."""
    parts = operator.split(".")
    if operator.rpartition(".")[0] in ARRAYS or parts[0] == "image":
        return {}
    for prefix in REGISTERED_PREFIXES.get(parts[-2] if parts[-2] != "nd" else "", ("",)):
        types = registered_types(prefix + parts[-1])
        if types is not None:
            return types
    return {}


def parameters_of(function):
    """Return a function's own parameters, which may differ from its documented signature."""
    try:
        documented = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        documented = []
    if not isinstance(function, types.FunctionType):
        return documented
    bare = types.FunctionType(function.__code__, {}, argdefs=function.__defaults__, closure=function.__closure__)
    bare.__kwdefaults__ = function.__kwdefaults__
    own = list(inspect.signature(bare).parameters.values())
    return own if list_arguments(own) else documented


def takes_dtype(operator, function):
    """Return whether an operator by the user's name, which is ``function``, has an argument ``dtype``.

    A function that passes on its arguments takes what the operator behind it takes, a method that of the same name.
    """
    array, _, last = operator.rpartition(".")
    if array in ARRAYS:
        operator, function = array.partition(".")[0] + "." + last, getattr(dotted(mx, array), last)
    parameters = [] if isinstance(function, property) else parameters_of(function)
    if any(parameter.name == "dtype" for parameter in parameters):
        return True
    if operator in OTHER_FUNCTION or not any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return False
    registered = argument_types(operator)
    return "dtype" in registered or not (registered or list_arguments(parameters))
