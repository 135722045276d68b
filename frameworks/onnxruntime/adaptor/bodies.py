"""The graphs that control flow takes as attributes: those that a spec can name, as {"function": name}."""

from onnx import TensorProto, helper


def info(name, element=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, element, shape)


def then_branch():
    """For If: a constant of 64 x 64, and its hyperbolic tangent."""
    return branch("Tanh", 0.5)


def else_branch():
    """For If: the same with a sine."""
    return branch("Sin", 0.25)


def branch(operator, value):
    constant = helper.make_tensor("value", TensorProto.FLOAT, [64, 64], [value] * 64 * 64)
    nodes = [helper.make_node("Constant", [], ["a"], value=constant), helper.make_node(operator, ["a"], ["b"])]
    return helper.make_graph(nodes, "branch", [], [info("b", shape=[64, 64])])


def loop_body():
    """For Loop: the state halved, and one added to it."""
    half, one = (helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in (("h", 0.5), ("o", 1.0)))
    nodes = [
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Constant", [], ["one"], value=one),
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("Mul", ["state", "half"], ["halved"]),
        helper.make_node("Add", ["halved", "one"], ["state_after"]),
    ]
    given = [info("step", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("state")]
    return helper.make_graph(nodes, "loop", given, [info("go_on", TensorProto.BOOL, []), info("state_after")])


def scan_body():
    """For Scan: a running sum."""
    nodes = [helper.make_node("Add", ["state", "one"], ["sum"]), helper.make_node("Identity", ["sum"], ["row"])]
    return helper.make_graph(nodes, "scan", [info("state"), info("one")], [info("sum"), info("row")])


def map_body():
    """For SequenceMap: the hyperbolic tangent of each tensor."""
    return helper.make_graph([helper.make_node("Tanh", ["one"], ["mapped"])], "map", [info("one")], [info("mapped")])


BODIES = {one.__name__: one for one in (then_branch, else_branch, loop_body, scan_body, map_body)}


def make(name):
    """The graph of that name. Raises ValueError."""
    if name not in BODIES:
        raise ValueError("there is no graph {}: use {}".format(name, ", ".join(BODIES)))
    return BODIES[name]()
