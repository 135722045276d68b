"""Graphs that operators of control flow take as attributes; a spec names one as {"function": name}."""

from onnx import parser

BRANCH = """branch () => (float[64,64] b) {{
    a = Constant <value = float[64,64] {{{values}}}> ()
    b = {operator} (a)
}}"""
BODIES = {
    # For If: the hyperbolic tangent of a constant, or the sine of another.
    "then_branch": BRANCH.format(operator="Tanh", values=", ".join(["0.5"] * 64 * 64)),
    "else_branch": BRANCH.format(operator="Sin", values=", ".join(["0.25"] * 64 * 64)),
    # For Loop: halve the state and add one.
    "loop_body": """loop (int64 step, bool go, float[] state) => (bool go_on, float[] state_after) {
        half = Constant <value = float {0.5}> ()
        one = Constant <value = float {1.0}> ()
        go_on = Identity (go)
        halved = Mul (state, half)
        state_after = Add (halved, one)
    }""",
    # For Scan: a running sum.
    "scan_body": """scan (float[] state, float[] one) => (float[] sum, float[] row) {
        sum = Add (state, one)
        row = Identity (sum)
    }""",
    # For SequenceMap: the hyperbolic tangent of each tensor.
    "map_body": "map (float[] one) => (float[] mapped) { mapped = Tanh (one) }",
}


def make(name):
    """Return the graph of that name. Raise ValueError if there is none."""
    if name not in BODIES:
        raise ValueError(f"there is no graph {name}: use {', '.join(BODIES)}")
    return parser.parse_graph(BODIES[name])
