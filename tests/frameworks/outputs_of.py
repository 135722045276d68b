"""Run in a build: for each request on stdin, a line, what the adaptor gives, and what MXNet itself does.

Each answer comes from a process of its own, which may crash: {"case": outputs or error, "direct": the same} with
outputs as [[shape, dtype, storage type], ...] and an error as its message.  "direct" is made without the adaptor.
"""

import json
import os
import sys

import mxnet as mx
import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor


def described(result):
    mx.nd.waitall()
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    return [
        [list(one.shape), str(numpy.dtype(one.dtype)), getattr(one, "stype", "none")]
        if hasattr(one, "shape")
        else [type(one).__name__]
        for one in results
    ]


def outputs(call):
    try:
        return {"outputs": described(call())}
    except Exception as error:
        return {"error": str(error)}


def ours(case):
    def call():
        operator = adaptor.resolve(case["operator"])
        args, kwargs = adaptor.Inputs(case, 1).arguments()
        return operator(*args, **kwargs)

    return call


def tensor(module, shape, dtype, stype="default"):
    made = module.array(numpy.ones(shape), dtype=dtype)
    return made if stype == "default" else made.tostype(stype)


def direct(operator, tensors, attributes, variadic):
    root = operator.split(".")[0]

    def call():
        function = mx
        for part in operator.split("."):
            function = getattr(function, part)
        module = mx.nd if root == "nd" else mx.np
        made = {name: tensor(module, **one) for name, one in tensors.items()}
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in attributes.items()}
        return function(*made.values(), **options) if variadic else function(**dict(made, **options))

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
    asked = json.loads(line)
    told = {kind: answer({kind: asked[kind], "numpy": asked["numpy"]}) for kind in ("case", "direct") if kind in asked}
    print(json.dumps(told), file=talk, flush=True)
