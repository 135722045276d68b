"""Run in a build of ONNX Runtime: answer cases, and null.

An answer to a case: {"outputs": [[name, dtype, shape, sum]], "digest": str, "operators": those that the
profiler saw in a call, "forked": the sums that a forked child computes}, of a case with "memory" {"memory": bytes}, or
{"error": kind, "reason": str}; to null the state after the import: {"threads": int, "versions": {...}}.
"""

import os
import tempfile
import types

import numpy
from build_script import THREADS, adaptor, answer_each, in_child

SEED = 7


def outputs(case):
    with tempfile.TemporaryDirectory() as folder:
        entries = adaptor.results(case, SEED, folder, 1 << 20)
        values = [numpy.fromfile(os.path.join(folder, entry["file"]), entry["dtype"]) for entry in entries]
    return [
        [entry["name"], entry["dtype"], entry["shape"], float(value.sum())]
        for entry, value in zip(entries, values, strict=True)
    ]


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
    if case is None:
        return {"threads": THREADS, "versions": adaptor.versions()}
    try:
        if "memory" in case:
            return {"memory": memory(case)}
        forked = in_child(lambda: [output[-1] for output in outputs(case)]) if case.pop("fork", False) else None
        call = adaptor.make_call(case, SEED)
        call()
        (profiled,) = adaptor.profile(call, 1)
        result = {"outputs": outputs(case), "digest": adaptor.digest(case, SEED), "forked": forked}
        return dict(result, operators=profiled["operators"])
    except Exception as error:
        return {"error": getattr(error, "kind", "error"), "reason": adaptor.key_line(str(error))}


answer_each(answer)
