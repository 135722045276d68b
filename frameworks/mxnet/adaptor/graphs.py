"""Run one operator as a hybridized graph, whose inputs are the case's tensors.

Some operators have states that a call can't pass, or infer their shapes only in a graph.
"""

import mxnet as mx
import numpy

from .operators import MissingOperator, dotted, parameters_of

BACKEND = "backend"  # an input of hybridized cases: what may rewrite the graph, such as MKLDNN's fused operators
NAME = "graph"  # of the operator's node; a prefix of the variables that the operator adds


def symbol_function(name):
    """Return ``mx.sym.contrib.quantize`` for ``nd.contrib.quantize``. Raise MissingOperator if there is none."""
    root, _, name_in_root = name.partition(".")
    symbol = dotted(mx.sym if root == "nd" else getattr(mx.sym, root, None), name_in_root)
    if not callable(symbol):
        raise MissingOperator(f"mxnet {mx.__version__} has no symbol for {name}")
    return symbol


def make_graph(inputs, args, kwargs):
    """Return ``(block, tensors)``: a hybridized block of the case's operator, and the arguments of its call.

    ``inputs``: the Inputs of the case, which made ``args`` and ``kwargs``.  A tensor whose name isn't an argument of
    the operator is a state, such as the moving_mean of BatchNorm_v1.  Raise ValueError if there is no such state.
    """
    function = symbol_function(inputs.case["operator"])
    tensors = {f"arg{number}": value for number, value in enumerate(args) if is_tensor(value)}
    tensors.update((name, value) for name, value in kwargs.items() if is_tensor(value))
    argument_names = [parameter.name for parameter in parameters_of(function)]
    states = [name for name in tensors if name in kwargs and name not in argument_names]
    names = {name: f"{NAME}_{name}" if name in states else name for name in tensors}
    variables = {name: variable(inputs, names[name], tensor) for name, tensor in tensors.items()}
    positional = [variables.get(f"arg{number}", value) for number, value in enumerate(args)]
    named = {name: variables.get(name, value) for name, value in kwargs.items() if name not in (*states, BACKEND)}
    symbol = function(*positional, **(dict(named, name=NAME) if states else named))
    unknown = sorted(set(names.values()) - set(symbol.list_inputs()))
    if unknown:
        operator = inputs.case["operator"]
        raise ValueError(f"{unknown[0]} is neither an argument nor a state of {operator}")
    block = mx.gluon.SymbolBlock(symbol, list(variables.values()))
    hybridize(block, kwargs.get(BACKEND))
    return block, list(tensors.values())


def variable(inputs, name, tensor):
    symbol_variable = mx.sym.var(name, shape=tensor.shape, dtype=numpy.dtype(tensor.dtype).name)
    return symbol_variable.as_np_ndarray() if inputs.numpy else symbol_variable


def is_tensor(value):
    return isinstance(value, mx.nd.NDArray)


def hybridize(block, backend):
    """Hybridize with static memory and shapes, as MXNet recommends. A ``backend`` may rewrite the graph."""
    block.hybridize(static_alloc=True, static_shape=True, **({"backend": backend} if backend else {}))
