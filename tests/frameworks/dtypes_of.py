"""Run in a build: print the dtypes of each case on stdin, a line, from a process of its own.

{"inputs": dtypes of its tensors and parameters, "outputs": those of its outputs or gradients}, {"error": message} if
it is refused, {"died": signal or exit code}.
"""

import json
import os
import signal
import sys

import mxnet as mx
import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

LIMIT_S = 20


def dtype_of(value):
    return numpy.dtype(value.dtype).name if hasattr(value, "dtype") else type(value).__name__


def dtypes(case):
    try:
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
    except Exception as error:
        return {"error": adaptor.key_line(str(error) or repr(error))}


def answer(case):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(LIMIT_S)
        with os.fdopen(writing, "w") as stream:
            json.dump(dtypes(case), stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    status = os.waitpid(pid, 0)[1]
    return json.loads(text) if text and status == 0 else {"died": status}


talk = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what MXNet prints is no answer
for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), file=talk, flush=True)
