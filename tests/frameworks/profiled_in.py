"""Run in a build: print the profile of calls of a custom operator, and the duration of each call, in ns."""

import json
import os
import sys
import time

import mxnet as mx

sys.path.insert(0, os.path.dirname(sys.argv[1]))
sys.path.append(os.path.join(os.path.dirname(os.path.dirname(sys.argv[1])), "common"))
import adaptor

SLEPT = 0.005
WAITED_FOR = mx.nd.ones((300, 300))


class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        time.sleep(SLEPT)
        mx.nd.dot(WAITED_FOR, WAITED_FOR).asnumpy()  # waits for an operator of its own, and copies
        self.assign(out_data[0], req[0], in_data[0] + 1)


@mx.operator.register("slow")
class SlowProperties(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Slow()


data = mx.nd.ones((10, 10))
durations = []


def call():
    start = time.time()
    mx.nd.Custom(data, op_type="slow").wait_to_read()
    durations.append(1e9 * (time.time() - start))


calls = adaptor.profile(call, 4)
# One more call comes before these. The trace's clock has ticks of 1000 ns at either end.
answer = [
    {"operators": call_profile["operators"], "taken": durations[1 + number] + 2000}
    for number, call_profile in enumerate(calls)
]
json.dump(answer, sys.stdout)
