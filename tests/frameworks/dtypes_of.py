"""Run in a build: return the dtypes of each case, from a process of its own: {"inputs": dtypes of its tensors and
parameters, "outputs": those of its outputs or gradients}, or "error", "died"."""

import mxnet as mx
import numpy
from build_script import adaptor, answer_each, in_child


def dtype_of(value):
    return numpy.dtype(value.dtype).name if hasattr(value, "dtype") else type(value).__name__


def dtypes(case):
    operator, inputs, args, kwargs = adaptor.prepare_case(case, 7)
    if case["direction"] == "forward":
        results = adaptor.calls.outputs_of(operator(*args, **kwargs))
    else:
        gradients = inputs.attach_gradients()
        with mx.autograd.record():
            outputs = adaptor.calls.outputs_of(operator(*args, **kwargs))
        mx.autograd.backward(outputs)
        results = [gradient for _, gradient in gradients]
    mx.nd.waitall()
    return {"inputs": sorted(inputs.dtypes()), "outputs": sorted({dtype_of(result) for result in results})}


answer_each(lambda case: in_child(dtypes, case))
