"""Run in a build: print for each request on stdin, a line, the adaptor's results and MXNet's own.

Each answer comes from a process of its own, which may crash: {"case": outputs or error, "direct": the same} with
outputs as [[shape, dtype, storage type], ...] and an error as its message.  "direct" doesn't use the adaptor.
"""

import json
import os
import sys

import mxnet as mx
import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor


def describe(result):
    mx.nd.waitall()
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [
        [list(value.shape), str(numpy.dtype(value.dtype)), getattr(value, "stype", "none")]
        if hasattr(value, "shape")
        else [type(value).__name__]
        for value in results
    ]


def outputs(call):
    try:
        return {"outputs": describe(call())}
    except Exception as error:
        return {"error": str(error)}


def ours(case):
    def call():
        operator = adaptor.resolve(case["operator"])
        args, kwargs = adaptor.Inputs(case, 1).arguments()
        return operator(*args, **kwargs)

    return call


def tensor(module, shape, dtype, stype="default"):
    array = module.array(numpy.ones(shape), dtype=dtype)
    return array if stype == "default" else array.tostype(stype)


def direct(operator, tensors, attributes, variadic):
    root = operator.split(".")[0]

    def call():
        function = mx
        for part in operator.split("."):
            function = getattr(function, part)
        module = mx.nd if root == "nd" else mx.np
        arrays = {name: tensor(module, **description) for name, description in tensors.items()}
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
        return function(*arrays.values(), **options) if variadic else function(**dict(arrays, **options))

    return call


def answer(request):
    """The answer, from a child; {"died": status} if it did."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        call = ours(request["case"]) if "case" in request else direct(**request["direct"])
        if request["numpy"]:
            mx.npx.set_np()
        with os.fdopen(writing, "w") as stream:
            json.dump(outputs(call), stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(text) if text else {"died": status}


talk = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what MXNet prints is no answer
for line in sys.stdin:
    questions = json.loads(line)
    answers = {
        kind: answer({kind: questions[kind], "numpy": questions["numpy"]})
        for kind in ("case", "direct")
        if kind in questions
    }
    print(json.dumps(answers), file=talk, flush=True)
