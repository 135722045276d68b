"""Run in a build: print the peak of MXNet's own counter in a first call of each case on standard input.

MXNet's table has it in thousands of bytes.  The counter starts at 0, because the inputs are made before the profiler
runs; each case has a process of its own, so that no workspace remains from another.
"""

import json
import os
import sys
import tempfile

import mxnet as mx

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

folder = tempfile.TemporaryDirectory()
trace = os.path.join(folder.name, "trace.json")  # MXNet removes what is there: /dev/null, too, when root runs this

for line in sys.stdin:
    sys.stdout.flush()
    if os.fork():
        os.wait()
        continue
    case = json.loads(line)
    operator, inputs, args, kwargs = adaptor.prepare_case(case, 1)
    call = adaptor.calls.forward_call(operator, args, kwargs)
    mx.profiler.set_config(profile_memory=True, aggregate_stats=True, filename=trace)
    mx.profiler.set_state("run")
    call()
    mx.nd.waitall()
    mx.profiler.set_state("stop")
    table = json.loads(mx.profiler.dumps(format="json"))
    print(table["Memory"]["Device Storage"]["Memory: cpu/0"]["Max"], flush=True)
    os._exit(0)
