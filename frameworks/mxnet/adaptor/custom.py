"""An operator written in Python."""

import mxnet as mx


class AddOne(mx.operator.CustomOp):
    """What nd.Custom runs: an operator written in Python, so that it is the way there and back that is measured."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])


@mx.operator.register("opduel_add_one")
class AddOneProperties(mx.operator.CustomOpProp):
    def __init__(self):
        super(AddOneProperties, self).__init__(need_top_grad=True)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return AddOne()
