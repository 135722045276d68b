"""Run the adaptor in a build of ONNX Runtime on the cases on stdin, a JSON list; write a JSON list of answers.

An answer: {"outputs": [[name, dtype, shape, sum]], "digest": str, "operators": those that the profiler saw in a call,
"forked": the sums that a forked child computes}, of a case with "memory" {"memory": bytes}, or {"error": kind,
"reason": str}. Before them comes the state after the import: {"threads": int, "versions": {...}}.
"""

import json
import os
import sys
import tempfile
import types

import numpy

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

SEED = 7


def outputs(case):
    with tempfile.TemporaryDirectory() as folder:
        entries = adaptor.results(case, SEED, folder, 1 << 20)
        values = [numpy.fromfile(os.path.join(folder, entry["file"]), entry["dtype"]) for entry in entries]
    return [
        [entry["name"], entry["dtype"], entry["shape"], float(value.sum())]
        for entry, value in zip(entries, values, strict=True)
    ]


def forked(case):
    """Return what a child computes that is forked now."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writing, "w") as stream:
            json.dump([output[-1] for output in outputs(case)], stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    assert os.waitpid(pid, 0)[1] == 0
    return json.loads(text)


def memory(case):
    """Measure the memory of a call; with "memory": "python only", act as a build without the shared library."""
    if case.pop("memory") == "python only":
        environment = adaptor.allocations.environment
        adaptor.allocations.environment = environment.__wrapped__  # a new one
        adaptor.capi.onnxruntime = types.SimpleNamespace(__file__="/nowhere/__init__.py", __version__="1.2.3")
        try:
            return adaptor.memory(case, SEED, 3)
        finally:
            adaptor.allocations.environment, adaptor.capi.onnxruntime = environment, adaptor.onnxruntime
    measurements = [adaptor.memory(dict(case), SEED, 3) for _ in range(2)]
    assert measurements[0] == measurements[1]
    return measurements[0]["cpu/0"]


def answer(case):
    try:
        if "memory" in case:
            return {"memory": memory(case)}
        in_child = forked(case) if case.pop("fork", False) else None
        call = adaptor.make_call(case, SEED)
        call()
        (profiled,) = adaptor.profile(call, 1)
        result = {"outputs": outputs(case), "digest": adaptor.digest(case, SEED), "forked": in_child}
        return dict(result, operators=profiled["operators"])
    except Exception as error:
        return {"error": getattr(error, "kind", "error"), "reason": adaptor.key_line(str(error))}


first = {"threads": len(os.listdir("/proc/self/task")), "versions": adaptor.versions()}
cases = json.load(sys.stdin)
with open(sys.argv[2], "w") as stream:
    json.dump([first, *map(answer, cases)], stream)
os._exit(0)
