"""Run in a build: return for each of so many calls of a custom operator its profile, and its duration in ns."""

import time

import mxnet as mx
from build_script import adaptor, answer_each

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


def answer(calls):
    """One more call comes before these. The trace's clock has ticks of 1000 ns at either end."""
    profiles = adaptor.profile(call, calls)
    return [
        {"operators": call_profile["operators"], "taken": duration + 2000}
        for call_profile, duration in zip(profiles, durations[1:], strict=True)
    ]


answer_each(answer)
