"""Graphs that operators of control flow take as attributes; a spec names one as {"function": name}."""

from onnx import TensorProto, helper


def info(name, element=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, element, shape)


def then_branch():
    """Return a graph for If: the hyperbolic tangent of a constant of 64 x 64."""
    return branch("Tanh", 0.5)


def else_branch():
    """Return a graph for If: the sine of a constant of 64 x 64."""
    return branch("Sin", 0.25)


def branch(operator, value):
    constant = helper.make_tensor("value", TensorProto.FLOAT, [64, 64], [value] * 64 * 64)
    nodes = [helper.make_node("Constant", [], ["a"], value=constant), helper.make_node(operator, ["a"], ["b"])]
    return helper.make_graph(nodes, "branch", [], [info("b", shape=[64, 64])])


def loop_body():
    """Return a graph for Loop: halve the state and add one."""
    half, unit = (helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in (("h", 0.5), ("o", 1.0)))
    nodes = [
        helper.make_node("Constant", [], ["half"], value=half),
        helper.make_node("Constant", [], ["one"], value=unit),
        helper.make_node("Identity", ["go"], ["go_on"]),
        helper.make_node("Mul", ["state", "half"], ["halved"]),
        helper.make_node("Add", ["halved", "one"], ["state_after"]),
    ]
    inputs = [info("step", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("state")]
    return helper.make_graph(nodes, "loop", inputs, [info("go_on", TensorProto.BOOL, []), info("state_after")])


def scan_body():
    """Return a graph for Scan: a running sum."""
    nodes = [helper.make_node("Add", ["state", "one"], ["sum"]), helper.make_node("Identity", ["sum"], ["row"])]
    return helper.make_graph(nodes, "scan", [info("state"), info("one")], [info("sum"), info("row")])


def map_body():
    """Return a graph for SequenceMap: the hyperbolic tangent of each tensor."""
    return helper.make_graph([helper.make_node("Tanh", ["one"], ["mapped"])], "map", [info("one")], [info("mapped")])


BODIES = {body.__name__: body for body in (then_branch, else_branch, loop_body, scan_body, map_body)}


def make(name):
    """Return the graph of that name. Raise ValueError if there is none."""
    if name not in BODIES:
        raise ValueError("there is no graph {}: use {}".format(name, ", ".join(BODIES)))
    return BODIES[name]()
