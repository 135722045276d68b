"""MXNet's profiler tutorial: the table and the timeline, with a custom operator's Python code. Run as it is."""

import mxnet as mx
from mxnet import profiler


class MyAddOne(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)


@mx.operator.register("MyAddOne")
class CustomAddOneProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return MyAddOne()


profiler.set_config(profile_all=True, continuous_dump=True, aggregate_stats=True, filename="profile_output.json")
profiler.set_state("run")
mx.nd.Custom(mx.nd.zeros((500, 500)), op_type="MyAddOne")
weight = mx.nd.ones((4, 3, 3, 3))
mx.nd.Convolution(mx.nd.ones((1, 3, 32, 32)), weight, kernel=(3, 3), num_filter=4, no_bias=True)
mx.nd.waitall()
profiler.set_state("stop")
print(profiler.dumps())
profiler.dump(finished=False)
