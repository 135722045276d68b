"""The design document: initializer, dtype and backward for each input, and a Gluon layer (with a smaller image)."""

import mxnet as mx
from mxnet import nd
from mxnet.gluon import nn

from opduel import run_performance_test

ADD = {"lhs": (1024, 1024), "rhs": (1024, 1024), "initializer": nd.normal, "run_backward": True}
CONVOLUTION = {
    "data": (4, 3, 64, 64),
    "data_initializer": nd.normal,
    "channels": 64,
    "kernel_size": (3, 3),
    "strides": (1, 1),
    "padding": (0, 0),
    "dilation": (1, 1),
    "layout": "NCHW",
    "activation": None,
    "run_backward": True,
    "dtype": "float32",
}

results = run_performance_test(mx.nd.add, ctx=mx.cpu(), inputs=[dict(ADD, dtype="float32")])
results += run_performance_test(nn.Conv2D, ctx=mx.cpu(), warmup=2, runs=5, inputs=[CONVOLUTION])
results += run_performance_test(mx.nd.add, ctx=mx.cpu(), inputs=[dict(ADD, dtype="float64")])
print(results)
