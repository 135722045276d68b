"""List the operators that opperf measures: run in a build, with the folder of MXNet's source that holds ``benchmark/``.

It runs opperf without the measurements.  Prints one JSON document, operator -> whether opperf also measures its
backward; for release 1.9.1's opperf, in its own build:

    PYTHON frameworks/mxnet/opperf.py MXNET_SOURCE > specifications/frameworks/mxnet/opperf.json
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main(source):
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.path[:] = [source] + [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    from benchmark.opperf.utils import benchmark_utils

    backward_by_operator = {}

    def note(op, inputs, run_backward, *ignored):
        backward_by_operator[op.__name__] = backward_by_operator.get(op.__name__, False) or bool(run_backward)
        return {op.__name__: []}

    benchmark_utils._run_nd_operator_performance_test = note
    benchmark_utils._prepare_op_inputs = lambda *arguments: []
    from benchmark.opperf import opperf

    opperf.run_all_mxnet_operator_benchmarks(warmup=1, runs=1)
    with os.fdopen(answer, "w") as stream:
        stream.write(json.dumps(backward_by_operator, indent=0, sort_keys=True) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
