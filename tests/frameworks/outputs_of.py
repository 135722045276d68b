"""Run in a build: return for each request the adaptor's results and MXNet's own.

Each answer comes from a process of its own, which may crash: {"case": outputs or error, "direct": the same} with
outputs as [[shape, dtype, storage type], ...].  "direct" doesn't use the adaptor.
"""

import mxnet as mx
import numpy
from build_script import adaptor, answer_each, in_child


def describe(result):
    mx.nd.waitall()
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [
        [list(value.shape), str(numpy.dtype(value.dtype)), getattr(value, "stype", "none")]
        if hasattr(value, "shape")
        else [type(value).__name__]
        for value in results
    ]


def of_adaptor(case):
    operator = adaptor.resolve(case["operator"])
    args, kwargs = adaptor.Inputs(case, 1).arguments()
    return operator(*args, **kwargs)


def tensor(module, shape, dtype, stype="default"):
    array = module.array(numpy.ones(shape), dtype=dtype)
    return array if stype == "default" else array.tostype(stype)


def of_mxnet(direct):
    function = mx
    for part in direct["operator"].split("."):
        function = getattr(function, part)
    module = mx.nd if direct["operator"].startswith("nd.") else mx.np
    arrays = {name: tensor(module, **description) for name, description in direct["tensors"].items()}
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in direct["attributes"].items()}
    return function(*arrays.values(), **options) if direct["variadic"] else function(**dict(arrays, **options))


def outputs(call, question, numpy_semantics):
    if numpy_semantics:
        mx.npx.set_np()
    return {"outputs": describe(call(question))}


def answer(request):
    calls = {"case": of_adaptor, "direct": of_mxnet}
    return {
        kind: in_child(outputs, call, request[kind], request["numpy"])
        for kind, call in calls.items()
        if kind in request
    }


answer_each(answer)
