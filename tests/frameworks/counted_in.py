"""Run in a build: return the peak of MXNet's own counter in a first call of each case.

MXNet's table has it in thousands of bytes.  The counter starts at 0, because the inputs are made before the profiler
runs; each case has a process of its own, so that no workspace remains from another.
"""

import json
import os
import tempfile

import mxnet as mx
from build_script import adaptor, answer_each, in_child

folder = tempfile.TemporaryDirectory()
trace = os.path.join(folder.name, "trace.json")  # MXNet removes what is there: /dev/null, too, when root runs this


def counted(case):
    operator, _, args, kwargs = adaptor.prepare_case(case, 1)
    call = adaptor.calls.forward_call(operator, args, kwargs)
    mx.profiler.set_config(profile_memory=True, aggregate_stats=True, filename=trace)
    mx.profiler.set_state("run")
    call()
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    table = json.loads(mx.profiler.dumps(format="json"))
    return table["Memory"]["Device Storage"]["Memory: cpu/0"]["Max"]


answer_each(lambda case: in_child(counted, case))
