"""Cases in whole numbers that would divide by zero or write out of bounds: refused before they run.

Where MXNet itself refuses a dtype, it says so; in these cases it would die of a signal, or its results mean nothing.
"""

import json

import mxnet as mx
import numpy

from .graphs import BACKEND

# Of nd, nd.sparse and np, as functions, methods and nodes of graphs: they divide a sum by the number of its elements,
# which MXNet converts to the dtype of the output.  np.mean has a division of its own in whole numbers.
AVERAGES = ("mean", "moments", "var", "std", "average", "_npi_var", "_npi_std", "_npi_average")
OPTIMIZERS = "optimizer."


def is_whole(dtype):
    return numpy.dtype(dtype).kind in "iu"


def check_case(case):
    """Raise ValueError for what can't be computed in the case's dtype, whatever its tensors' sizes."""
    dtype = case["dtype"]
    if not is_whole(dtype):
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
    """Raise ValueError if the case's operator takes means over so many elements that their number becomes 0."""
    root, _, last = case["operator"].rpartition(".")
    arrays = [one for one in list(args) + list(kwargs.values()) if isinstance(one, mx.nd.NDArray)]
    if last not in AVERAGES or not arrays or (root.startswith("np") and last == "mean"):
        return
    asked = kwargs.get("dtype") or arrays[0].dtype
    axes = kwargs.get("axes", kwargs.get("axis"))
    if axes is None and len(args) > 1 and isinstance(args[1], (int, tuple)):
        axes = args[1]
    count = averaged(arrays[0].shape, axes, bool(kwargs.get("exclude")))
    check_count(case["operator"], count, asked)


def averaged(shape, axes, exclude=False):
    """How many elements of a tensor of ``shape`` each mean over ``axes`` (None: all; or all others) is taken of."""
    named = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    places = {axis % len(shape) for axis in named}
    if exclude and axes is not None:
        places = set(range(len(shape))) - places
    return int(numpy.prod([shape[place] for place in places], dtype="int64"))


def check_count(operator, count, dtype):
    """Raise ValueError if ``count`` is 0 in ``dtype``."""
    dtype = numpy.dtype(dtype)
    if is_whole(dtype) and count and count % 2 ** (8 * dtype.itemsize) == 0:
        raise ValueError(
            f"{operator} divides by the number of elements of a mean, {count}, which is 0 in {dtype.name}: use another "
            f"dtype, or sizes of which that is no multiple of {2 ** (8 * dtype.itemsize)}"
        )


def check_block(name, block, arrays):
    """Raise ValueError if a mean within a Gluon block is taken of so many elements that their number becomes 0."""
    if not any(is_whole(one.dtype) for one in arrays):
        return
    try:
        nodes, shapes = traced(block, arrays)
    except Exception:  # it has no graph: it isn't a HybridBlock, or takes other arguments
        return
    smallest = min((numpy.dtype(one.dtype) for one in arrays if is_whole(one.dtype)), key=lambda one: one.itemsize)
    for node in nodes:
        if node["op"] in AVERAGES:
            inner, outer = shapes.get(nodes[node["inputs"][0][0]]["name"]), shapes.get(node["name"])
            if inner and outer is not None and numpy.prod(outer, dtype="int64"):
                count = int(numpy.prod(inner, dtype="int64") // numpy.prod(outer, dtype="int64"))
                check_count(name, count, smallest)


def traced(block, arrays):
    """The nodes of a block's graph, and by a node's name the shape of its first output, as far as it is known."""
    names = ["whole{}".format(i) for i in range(len(arrays))]
    result = block(*[mx.sym.var(name) for name in names])
    symbol = mx.sym.Group(list(result)) if isinstance(result, (list, tuple)) else result
    internals = symbol.get_internals()
    _, shapes, _ = internals.infer_shape_partial(**{name: one.shape for name, one in zip(names, arrays)})
    found = {}
    for output, shape in zip(internals.list_outputs(), shapes):
        node = output[: -len("_output")] if output.endswith("_output") else output
        found.setdefault(node, shape)
    return json.loads(symbol.tojson())["nodes"], found
