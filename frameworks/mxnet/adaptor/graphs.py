"""An operator as a graph of its own, hybridized: what its symbol does, with the case's tensors as the graph's inputs.

Some operators have states that can't be passed in a call, or infer their shapes in a graph alone.
"""

import mxnet as mx
import numpy

from .operators import MissingOperator, dotted, parameters_of

BACKEND = "backend"  # an input of what is hybridized: what may rewrite the graph, such as MKLDNN's fused operators
NAME = "graph"  # of the operator's node; names of variables that the operator adds begin with it


def symbol_function(name):
    """``mx.sym.contrib.quantize`` for ``nd.contrib.quantize``. Raises MissingOperator: this build has none."""
    root, _, rest = name.partition(".")
    found = dotted(mx.sym if root == "nd" else getattr(mx.sym, root, None), rest)
    if not callable(found):
        raise MissingOperator("mxnet {} has no symbol for {}".format(mx.__version__, name))
    return found


def make_graph(inputs, args, kwargs):
    """``(block, tensors)``: a hybridized block of the case's one operator, and what it is called with.

    ``inputs``: an Inputs of the case, which has made ``args`` and ``kwargs``.  A tensor by a name that the operator
    doesn't take is a state of it, such as the moving_mean of BatchNorm_v1.  Raises ValueError where there is no such.
    """
    function = symbol_function(inputs.case["operator"])
    backend = kwargs.get(BACKEND)
    attributes = {name: one for name, one in kwargs.items() if not is_tensor(one) and name != BACKEND}
    tensors = {"arg{}".format(i): one for i, one in enumerate(args) if is_tensor(one)}
    tensors.update((name, one) for name, one in kwargs.items() if is_tensor(one))
    taken = [one.name for one in parameters_of(function)]
    states = [name for name in tensors if name in kwargs and name not in taken]
    variables = {
        name: variable(inputs, NAME + "_" + name if name in states else name, one) for name, one in tensors.items()
    }
    positional = [variables.get("arg{}".format(i), one) for i, one in enumerate(args)]
    attributes.update((name, one) for name, one in variables.items() if name in kwargs and name not in states)
    symbol = function(*positional, **(dict(attributes, name=NAME) if states else attributes))
    for one in variables.values():
        if one.name not in symbol.list_inputs():
            raise ValueError("{} is neither an argument nor a state of {}".format(one.name, inputs.case["operator"]))
    block = mx.gluon.SymbolBlock(symbol, list(variables.values()))
    hybridize(block, backend)
    return block, list(tensors.values())


def variable(inputs, name, tensor):
    one = mx.sym.var(name, shape=tensor.shape, dtype=numpy.dtype(tensor.dtype).name)
    return one.as_np_ndarray() if inputs.numpy else one


def is_tensor(value):
    return isinstance(value, mx.nd.NDArray)


def hybridize(block, backend):
    """As MXNet's documentation recommends: with static memory and shapes. A ``backend`` may rewrite the graph."""
    block.hybridize(static_alloc=True, static_shape=True, **({"backend": backend} if backend else {}))
