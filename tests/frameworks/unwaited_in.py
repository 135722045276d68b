"""Run in a build: return for each case the operators that still run when its call has returned.

The engine has one thread for operators on the CPU, which gets a matrix product before each call: a call that waits for
its operators takes longer than that, and one that doesn't returns before they begin.  So the answer depends neither on
how long operators take nor on other load.  The operator "unwaited" is an exp that nothing waits for, as a control.
"""

import time

import mxnet as mx
from build_script import adaptor, answer_each, in_child

COPY, add_interval = adaptor.profiler.COPY, adaptor.profiler.add_interval

OURS = "dot"  # the operator that delays the others
SIZE = 600  # of its matrices: it takes some milliseconds
CALLS = 3


def unwaited(case):
    """Return the names of operators that ended after any of the calls had returned."""
    data = mx.nd.ones((100, 100))
    call = adaptor.make_call(case, 1) if case["operator"] != "unwaited" else lambda: mx.nd.exp(data)
    matrix, product = mx.nd.ones((SIZE, SIZE)), mx.nd.zeros((SIZE, SIZE))
    call()
    mx.nd.waitall()
    returned = []

    def delayed():
        mx.nd.dot(matrix, matrix, out=product)
        call()
        returned.append(1e6 * time.time())

    profiler = adaptor.Profiler()
    profiler.configure()
    events, starts = profiler.record(delayed, CALLS)
    intervals, open_starts = [], {}
    for event in events:
        add_interval(event, intervals, open_starts)
    late_names = set()
    for number, end in enumerate(returned):
        following = starts[number + 1] if number + 1 < CALLS else float("inf")
        late = [name for kind, name, start, stop in intervals if kind != COPY and stop > end and start < following]
        if OURS in late:  # a call that runs no operator leaves it behind
            late.remove(OURS)
        late_names |= set(late)
    return {"unwaited": sorted(late_names)}


answer_each(lambda case: in_child(unwaited, case))
