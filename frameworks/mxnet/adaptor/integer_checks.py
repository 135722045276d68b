"""Refuse cases of integer dtypes that would divide by zero or write out of bounds.

MXNet itself refuses some dtypes; in these cases it would die of a signal, or compute nonsense.
"""

import json

import mxnet as mx
import numpy

from .graphs import BACKEND

# Operators of nd, nd.sparse and np that divide a sum by the number of its elements, which MXNet converts to the dtype
# of the output.  np.mean divides integers otherwise.
AVERAGES = ("mean", "moments", "var", "std", "average", "_npi_var", "_npi_std", "_npi_average")
OPTIMIZERS = "optimizer."


def is_integer(dtype):
    return numpy.dtype(dtype).kind in "iu"


def check_case(case):
    """Raise ValueError if the case can't be computed in its dtype, whatever its tensors' sizes."""
    dtype = case["dtype"]
    if not is_integer(dtype):
        return
    if case["operator"].startswith(OPTIMIZERS):
        raise ValueError(
            f"{case['operator']} computes with rates below 1, which are 0 in {dtype}, and may divide by them: "
            "use a floating-point dtype"
        )
    if BACKEND in case["inputs"]:
        raise ValueError(
            f"{BACKEND}: fused operators compute in floating point, and would write outputs larger than those of "
            f"{dtype}: use float32, or leave {BACKEND} out"
        )


def check_average(case, args, kwargs):
    """Raise ValueError if the case's operator takes means over so many elements that their number overflows to 0."""
    root, _, last = case["operator"].rpartition(".")
    arrays = [argument for argument in list(args) + list(kwargs.values()) if isinstance(argument, mx.nd.NDArray)]
    if last not in AVERAGES or not arrays or (root.startswith("np") and last == "mean"):
        return
    dtype = kwargs.get("dtype") or arrays[0].dtype
    axes = kwargs.get("axes", kwargs.get("axis"))
    if axes is None and len(args) > 1 and isinstance(args[1], (int, tuple)):
        axes = args[1]
    count = elements_per_mean(arrays[0].shape, axes, bool(kwargs.get("exclude")))
    check_count(case["operator"], count, dtype)


def elements_per_mean(shape, axes, exclude=False):
    """Return how many elements of a tensor each mean over ``axes`` has; None means all axes, ``exclude`` all others."""
    named = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    places = {axis % len(shape) for axis in named}
    if exclude and axes is not None:
        places = set(range(len(shape))) - places
    return int(numpy.prod([shape[place] for place in places], dtype="int64"))


def check_count(operator, count, dtype):
    """Raise ValueError if ``count`` is 0 in ``dtype``."""
    dtype = numpy.dtype(dtype)
    if is_integer(dtype) and count and count % 2 ** (8 * dtype.itemsize) == 0:
        raise ValueError(
            f"{operator} divides by the number of elements of a mean, {count}, which is 0 in {dtype.name}: use another "
            f"dtype, or sizes of which that is no multiple of {2 ** (8 * dtype.itemsize)}"
        )


def check_block(name, block, arrays):
    """Raise ValueError if a mean within a Gluon block has so many elements that their number overflows to 0."""
    if not any(is_integer(array.dtype) for array in arrays):
        return
    try:
        nodes, shapes = trace_block(block, arrays)
    except Exception:  # no graph: it isn't a HybridBlock, or takes other arguments
        return
    dtypes = [numpy.dtype(array.dtype) for array in arrays if is_integer(array.dtype)]
    smallest = min(dtypes, key=lambda dtype: dtype.itemsize)
    for node in nodes:
        if node["op"] in AVERAGES:
            inner, outer = shapes.get(nodes[node["inputs"][0][0]]["name"]), shapes.get(node["name"])
            means = 0 if outer is None else numpy.prod(outer, dtype="int64")
            if inner and means:
                check_count(name, int(numpy.prod(inner, dtype="int64") // means), smallest)


def trace_block(block, arrays):
    """Return the nodes of a block's graph, and the known shapes of their first outputs by the nodes' names."""
    names = [f"whole{i}" for i in range(len(arrays))]
    result = block(*[mx.sym.var(name) for name in names])
    symbol = mx.sym.Group(list(result)) if isinstance(result, (list, tuple)) else result
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape_partial(**{name: array.shape for name, array in zip(names, arrays)})
    shape_by_node = {}
    for output, shape in zip(internals.list_outputs(), shapes):
        node = output[: -len("_output")] if output.endswith("_output") else output
        shape_by_node.setdefault(node, shape)
    return json.loads(symbol.tojson())["nodes"], shape_by_node
