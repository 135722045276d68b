"""Run inside a build: forward and backward of a convolution, with the numbers that come out of it. Python 3.6."""

import sys

import mxnet as mx
import numpy as np

data = mx.nd.ones((1, 3, 8, 8))
data.attach_grad()
with mx.autograd.record():
    output = mx.nd.Convolution(data, mx.nd.ones((4, 3, 3, 3)), no_bias=True, kernel=(3, 3), num_filter=4)
output.backward()
figures = output.asnumpy().sum(), data.grad.asnumpy().sum()
if figures != (3888.0, 3888.0):
    sys.exit(f"computed {figures} instead of 3888 twice")
print("computes, numpy", np.__version__)
