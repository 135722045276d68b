"""Write to files what a case computes: its outputs, its gradients, and the arguments that it changed."""

import mxnet as mx
import numpy

from opduel_common import results as common_results
from opduel_common import scripts
from opduel_common.values import draw_head_gradient


def results(prepared, case, seed, folder, limit):
    """Seed every generator, compute a ``prepared`` case once, and write its results to ``folder`` (``write_all``).

    The entries' "storage" is a tensor's storage type. Raise TypeError for a result that isn't numeric.
    """
    operator, inputs, args, kwargs = prepared

    def compute():
        seed_generators(seed)
        if case["direction"] == "forward":
            values = named_outputs(operator(*args, **kwargs))
        else:
            values = compute_backward(case, seed, inputs, operator, args, kwargs)
        mx.nd.waitall()
        return values

    values = common_results.with_changes(compute, inputs.tensors, to_numpy)
    arrays = [(name, to_numpy(value)) for name, value in values]
    for (name, array), (_, value) in zip(arrays, values):
        if array.dtype.kind not in common_results.COMPARABLE_KINDS:
            raise TypeError(f"{name}: a {type(value).__name__} is not a number")
    entries = common_results.write_all(arrays, folder, limit)
    return [dict(entry, storage=getattr(value, "stype", "default")) for entry, (_, value) in zip(entries, values)]


def seed_generators(seed):
    """Seed every generator of random numbers that an operator may draw from."""
    mx.random.seed(seed & 0x7FFFFFFF)
    scripts.seed_generators(seed)


def digest_of(inputs):
    """Return the SHA-256 of all tensors and parameters, in hexadecimal digits; "" if there are none."""
    arrays = {name: to_numpy(tensor) for name, tensor in inputs.tensors.items()}
    arrays.update(("parameter " + name, to_numpy(value.data())) for name, value in inputs.parameters.items())
    return common_results.digest_of(arrays)


def compute_backward(case, seed, inputs, operator, args, kwargs):
    """Return ``(name, gradient)`` pairs, and for direction "both" the outputs before them."""
    gradients_by_name = inputs.attach_gradients()
    with mx.autograd.record():
        outputs = named_outputs(operator(*args, **kwargs))
    heads = [head for _, head in outputs]
    weights = [head_gradient(head, seed, case["id"], number) for number, head in enumerate(heads)]
    mx.autograd.backward(heads, head_grads=weights)
    gradients = [("gradient of " + name, gradient) for name, gradient in gradients_by_name]
    return gradients if case["direction"] == "backward" else outputs + gradients


def head_gradient(head, seed, case_id, number):
    """Return the gradient of an output, or None for MXNet's default where the output isn't dense and of floats."""
    if getattr(head, "stype", "default") != "default" or numpy.dtype(head.dtype).kind != "f":
        return None
    make = mx.nd.array if type(head) is mx.nd.NDArray else mx.np.array
    values = draw_head_gradient(seed, case_id, number, head.shape).astype(head.dtype)
    return make(values, dtype=head.dtype, ctx=head.context)


def named_outputs(result):
    """Return ``(name, value)`` of each output: ``output``, or ``output[0]`` and so on, also in nested lists."""
    return common_results.flatten("output", result, lambda name, value: [(name, value)])


def to_numpy(value):
    """Return an operator's result as a dense numpy array."""
    return numpy.asarray(value.asnumpy() if hasattr(value, "asnumpy") else value)
