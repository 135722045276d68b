"""Run in a build: compare the results of both modes of each case, an imperative block."""

import hashlib

import numpy
from build_script import adaptor, answer_each


def compute(case):
    """Return a digest of the weights, outputs in inference, and gradients after two backward passes and after one."""
    inputs = adaptor.Inputs(case, 7)
    block = adaptor.BlockCall(case, inputs)
    weights = hashlib.sha256()
    for name, parameter in sorted(block.block._collect_params_with_prefix().items()):
        array = parameter.data().asnumpy()
        weights.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    outputs = [output.asnumpy() for output in adaptor.calls.outputs_of(block.call(*block.args))]
    gradients, first = [], []
    if case["direction"] == "backward":
        gradients = [gradient for _, gradient in inputs.attach_gradients()]
        call = adaptor.calls.backward_call(block.output, block.args, {}, gradients)
        call()
        first = [output.asnumpy() for output in gradients]
        call()
    return weights.hexdigest(), outputs, [output.asnumpy() for output in gradients], first


def difference(arrays, other_arrays):
    """Return the largest difference between two lists of arrays, as a share of each array's largest value."""
    differences = [0.0]
    for array, other_array in zip(arrays, other_arrays, strict=True):
        assert (array.shape, array.dtype) == (other_array.shape, other_array.dtype)
        differences.append(float(numpy.abs(array - other_array).max() / max(numpy.abs(array).max(), 1e-6)))
    return max(differences)


def answer(case):
    weights, outputs, gradients, first = compute(dict(case, mode="imperative"))
    again, graph_outputs, graph_gradients, graph_first = compute(dict(case, mode="hybridized"))
    return {
        "weights": [weights, again],
        "outputs": difference(outputs, graph_outputs),
        "gradients": difference(gradients, graph_gradients),
        "repeated": max(difference(first, gradients), difference(graph_first, graph_gradients)),
        "largest": [float(numpy.abs(array).max()) for array in outputs + gradients],
        "dtypes": sorted({str(array.dtype) for array in outputs + gradients}),
    }


answer_each(answer)
