"""List the operator calls of a network: run by path in a build's interpreter. Standard library and MXNet, Python 3.6
syntax.

Its only argument is a JSON object:
    {"zoo": name or null, "file": path of a saved symbol or null, "block": {"module": path, "name": class} or null,
     "inputs": {name: value}, "shapes": {input: shape}, "dtypes": {input: dtype}}
Prints one JSON document on stdout:
    {"version": str,
     "calls": [{"node": str, "functions": [name, ...], "inputs": {argument: value}}]    in the order of the graph
     "left_out": {operator: reason}}
or {"error": text}.  Functions are names for one operator, the best first; inputs are as in a spec.
"""

import ast
import json
import math
import sys

import registered  # removes this folder, whose modules would hide the build's, from the path

DTYPES = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
ONES = ("gamma", "moving_var")
ZEROS = ("beta", "moving_mean")
# Indices must be in range: operator -> its indices, and their limit: (argument, axis attribute, axis) or an attribute.
INDICES = {
    "Embedding": ("data", "input_dim"),
    "one_hot": ("indices", "depth"),
    "take": ("indices", ("a", "axis", 0)),
    "pick": ("index", ("data", "axis", -1)),
    "batch_take": ("indices", ("a", None, 1)),
    "SoftmaxOutput": ("label", ("data", None, 1)),
    "softmax_cross_entropy": ("label", ("data", None, 1)),
}


class Unusable(Exception):
    """An error in the request, which the user has to fix."""


def network_symbol(mx, adaptor, request):
    """Return the network's symbol, with all outputs in a group."""
    if request["block"]:
        return block_symbol(mx, adaptor.networks, request)
    if request["file"]:
        try:
            return mx.sym.load(request["file"])
        except (mx.MXNetError, ValueError) as error:
            raise Unusable("not a symbol that this build can load: " + adaptor.key_line(str(error))) from None
    zoo, as_attribute = mx.gluon.model_zoo.vision, adaptor.networks.as_attribute
    arguments = {key: as_attribute(value) for key, value in request["inputs"].items() if key not in request["shapes"]}
    make = getattr(zoo, request["zoo"], None)  # the function mobilenet0_25 makes the model mobilenet0.25
    try:
        net = make(**arguments) if callable(make) else zoo.get_model(request["zoo"], **arguments)
    except (ValueError, TypeError) as error:
        if callable(make):
            raise Unusable(str(error)) from None
        models = sorted(name for name in vars(zoo) if name[-1:].isdigit())
        raise Unusable(f"no such file, and no model of the zoo: {', '.join(models[:8])}...") from None
    return trace_block(mx, net, ["data"])


def block_symbol(mx, networks, request):
    """Return the symbol of a user's own HybridBlock; leave only its tensors in the request's shapes and dtypes."""
    kind = networks.block_class(request["block"]["module"], request["block"]["name"])
    names = networks.tensors_of_call(kind, request["inputs"])
    arguments = {name: networks.argument(value) for name, value in request["inputs"].items() if name not in names}
    for field in ("shapes", "dtypes"):
        request[field] = {name: value for name, value in request[field].items() if name in names}
    if not issubclass(kind, mx.gluon.HybridBlock):
        raise Unusable(kind.__name__ + " is not a HybridBlock: its operators can't be read")
    return trace_block(mx, kind(**arguments), names)


def trace_block(mx, net, names):
    """Return the symbol that ``net`` computes from inputs of these names."""
    net.initialize()
    outputs = net(*[mx.sym.var(name) for name in names])
    return mx.sym.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs


def infer_all(internals, request):
    """Return the shapes and dtypes of all internal outputs."""
    unknown = sorted(set(request["shapes"]) - set(internals.list_inputs()))
    if unknown:
        inputs = [name for name in internals.list_inputs() if not name.endswith(("weight", "bias", "gamma", "beta"))]
        raise Unusable(f"no input is called {unknown[0]}: use {', '.join(inputs[:6])}")
    shapes = internals.infer_shape_partial(**{name: tuple(shape) for name, shape in request["shapes"].items()})[1]
    infer_types = getattr(internals, "infer_type_partial", internals.infer_type)
    types = infer_types(**request["dtypes"])[1]
    return shapes, types or [None] * len(shapes)


def is_known(shape):
    return bool(shape) and all(isinstance(size, int) and size > 0 for size in shape)


def attribute(text):
    """Convert an attribute's text to a spec's value."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, (tuple, list)):
        sizes = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in value)
        return list(value) if sizes else {"value": list(value)}
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value if value is None or isinstance(value, (bool, int, float, str)) else text


class Calls:
    """The graph's nodes, as calls of functions; ``left_out`` has operators and the reasons."""

    def __init__(self, operators, graph, shapes, types):
        self.operators = operators
        self.nodes = graph["nodes"]
        self.output_types = {tuple(head[:2]): output for head, *output in zip(graph["heads"], shapes, types)}
        aliases = registered.all_registered(operators.base)
        self.own_names = {alias: registered.own_name(operators.base, alias) for alias in aliases}
        self.functions = {}
        for name, function in registered.functions_of(operators, self.own_names).items():
            if function["registered"] and name.startswith("nd."):
                names = [argument for argument, _ in function["arguments"]]
                self.functions.setdefault(function["registered"], []).append((name, names))
        self.calls, self.left_out = [], {}
        for node in self.nodes:
            try:
                if node["op"] != "null":
                    self.calls.append(self.call(node))
            except LookupError as error:
                self.left_out[node["op"]] = str(error.args[0])

    def call(self, node):
        """Return a node as a call. Raise LookupError with the reason if that isn't possible."""
        if node.get("subgraphs"):
            raise LookupError("it contains graphs of its own")
        if node["op"] == "Custom":
            raise LookupError("it is written in Python, and is not in the file")
        types = self.operators.registered_types(node["op"])
        if types is None:
            raise LookupError("this build has no such operator")
        attributes = {name: attribute(text) for name, text in node.get("attrs", {}).items() if name in types}
        tensors = [self.tensor(entry) for entry in node["inputs"]]
        kinds = [registered.kind_of(kind) for kind in types.values()]
        if "tensors" in kinds:
            attributes.pop("num_args", None)
            inputs = {"args": tensors}
        else:
            names = [name for name, kind in zip(types, kinds) if kind == "tensor"]
            if len(tensors) > len(names):
                raise LookupError("it has more inputs than arguments")
            inputs = dict(zip(names, tensors))
            self.fill_in(node["op"], inputs, attributes)
        functions = self.names_for(node["op"], [name for name in inputs if name != "args"] + list(attributes))
        return {"node": node["name"], "functions": functions, "inputs": dict(inputs, **attributes)}

    def tensor(self, entry):
        shape, dtype = self.output_types.get((entry[0], entry[1]), (None, None))
        if not is_known(shape):
            name = self.nodes[entry[0]]["name"]
            raise LookupError(f"the shape of {name} is not known")
        name = "float32" if dtype is None else self.operators.mx.nd.zeros((1,), dtype=dtype).dtype.__name__
        if name not in DTYPES:
            raise LookupError(f"of {name}, which specs don't know")
        return {"shape": list(shape), "dtype": name}

    def names_for(self, operator, arguments):
        """Return the functions for an operator that take these arguments, the most similar name first."""
        functions = self.functions.get(self.own_names[operator], [])
        candidates = [name for name, names in functions if set(arguments) <= set(names)]
        if not candidates:
            raise LookupError("no function of mx.nd takes its arguments")

        def difference(name):
            last = name.split(".")[-1]
            return (not operator.endswith(last), "_internal" in name, -len(last), name)

        return sorted(candidates, key=difference)

    def fill_in(self, operator, inputs, attributes):
        """Give values to tensors that can't have arbitrary ones."""
        for name, tensor in inputs.items():
            if name in ONES + ZEROS:
                tensor["init"] = "ones" if name in ONES else "zeros"
        name, within = INDICES.get(operator, (None, None))
        if name not in inputs:
            return
        if isinstance(within, tuple):
            argument, axis_name, axis = within
            shape = inputs[argument]["shape"]
            axis = attributes.get(axis_name, axis)
            high = shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1
        else:
            high = attributes[within]
        inputs[name].update(init="randint", low=0, high=high)


def document(adaptor, request):
    """Return the document that answers the request; ``adaptor`` is the module."""
    operators = adaptor.operators
    mx = operators.mx
    try:
        internals = network_symbol(mx, adaptor, request).get_internals()
        shapes, types = infer_all(internals, request)
    except mx.MXNetError as error:
        return {"error": "MXNet rejects it: " + adaptor.key_line(str(error))}
    except Unusable as error:
        return {"error": str(error)}
    except Exception as error:
        if not request["block"]:
            raise
        return {"error": f"{type(error).__name__}: {adaptor.key_line(str(error))}"}
    graph = json.loads(internals.tojson())
    nodes = [graph["nodes"][head[0]] for head in graph["heads"]]
    unknown = [node["name"] for node, shape in zip(nodes, shapes) if node["op"] == "null" and not is_known(shape)]
    if unknown:
        return {"error": "give the shape of " + " and ".join(unknown[:3])}
    calls = Calls(operators, graph, shapes, types)
    return {"version": mx.__version__, "calls": calls.calls, "left_out": calls.left_out}


if __name__ == "__main__":
    registered.answer(lambda: document(registered.load_adaptor(registered.HERE), json.loads(sys.argv[1])))
