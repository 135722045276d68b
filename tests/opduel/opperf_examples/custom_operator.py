"""MXNet's profiler tutorial: a custom operator."""

import mxnet as mx

from opduel import run_performance_test


class MyAddOne(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("MyAddOne")
class CustomAddOneProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=True)

    def create_operator(self, ctx, shapes, dtypes):
        return MyAddOne()


print(run_performance_test(mx.nd.Custom, inputs=[{"data": mx.nd.zeros(shape=(500, 500)), "op_type": "MyAddOne"}]))
