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
    backend = kwargs.get(BACKEND)
    attributes = {name: value for name, value in kwargs.items() if not is_tensor(value) and name != BACKEND}
    tensors = {f"arg{i}": value for i, value in enumerate(args) if is_tensor(value)}
    tensors.update((name, value) for name, value in kwargs.items() if is_tensor(value))
    argument_names = [parameter.name for parameter in parameters_of(function)]
    states = [name for name in tensors if name in kwargs and name not in argument_names]
    variables = {
        name: variable(inputs, NAME + "_" + name if name in states else name, tensor)
        for name, tensor in tensors.items()
    }
    positional = [variables.get(f"arg{i}", value) for i, value in enumerate(args)]
    attributes.update(
        (name, symbol_variable) for name, symbol_variable in variables.items() if name in kwargs and name not in states
    )
    symbol = function(*positional, **(dict(attributes, name=NAME) if states else attributes))
    for symbol_variable in variables.values():
        if symbol_variable.name not in symbol.list_inputs():
            raise ValueError(
                "{} is neither an argument nor a state of {}".format(symbol_variable.name, inputs.case["operator"])
            )
    block = mx.gluon.SymbolBlock(symbol, list(variables.values()))
    hybridize(block, backend)
    return block, list(tensors.values())


def variable(inputs, name, tensor):
    symbol_variable = mx.sym.var(name, shape=tensor.shape, dtype=numpy.dtype(tensor.dtype).name)
    return symbol_variable.as_np_ndarray() if inputs.numpy else symbol_variable


def is_tensor(value):
    return isinstance(value, mx.nd.NDArray)


def hybridize(block, backend):
    """Hybridize with static memory and shapes, as MXNet recommends. A ``backend`` may rewrite the graph."""
    block.hybridize(static_alloc=True, static_shape=True, **({"backend": backend} if backend else {}))
