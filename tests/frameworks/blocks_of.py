"""Run in a build: for each case on stdin, an imperative block, what both modes compute and how far they lie apart."""

import hashlib
import json
import os
import sys

import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor


def computed(case):
    """A digest of the weights, outputs in inference, and gradients after each of two backward passes of one graph."""
    inputs = adaptor.Inputs(case, 7)
    block = adaptor.BlockCall(case, inputs)
    weights = hashlib.sha256()
    for name, parameter in sorted(block.block._collect_params_with_prefix().items()):
        array = parameter.data().asnumpy()
        weights.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    outputs = [one.asnumpy() for one in adaptor.outputs_of(block.call(*block.args))]
    gradients, first = [], []
    if case["direction"] == "backward":
        gradients = [gradient for _, gradient in inputs.attach_gradients()]
        call = adaptor.backward_call(block.output, block.args, {}, gradients)
        call()
        first = [one.asnumpy() for one in gradients]
        call()
    return weights.hexdigest(), outputs, [one.asnumpy() for one in gradients], first


def apart(ones, others):
    """The largest difference between two lists of arrays, as a share of the largest value of each array."""
    found = [0.0]
    for one, other in zip(ones, others, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        found.append(float(numpy.abs(one - other).max() / max(numpy.abs(one).max(), 1e-6)))
    return max(found)


answers = []
for case in json.load(sys.stdin):
    weights, outputs, gradients, first = computed(dict(case, mode="imperative"))
    again, graph_outputs, graph_gradients, graph_first = computed(dict(case, mode="hybridized"))
    answers.append(
        {
            "weights": [weights, again],
            "outputs": apart(outputs, graph_outputs),
            "gradients": apart(gradients, graph_gradients),
            "repeated": max(apart(first, gradients), apart(graph_first, graph_gradients)),
            "largest": [float(numpy.abs(one).max()) for one in outputs + gradients],
            "dtypes": sorted({str(one.dtype) for one in outputs + gradients}),
        }
    )
json.dump(answers, sys.stdout)
