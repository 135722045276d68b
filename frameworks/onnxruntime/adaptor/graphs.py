"""Make a graph of one operator from a case's JSON, by the onnx package: the same bytes on both sides.

The operator's schema tells inputs from attributes, and gives their order and types.
"""

import numpy

from opduel_common.inputs import is_shape

from .schemas import USUAL_OPSETS, domain_of, find_schema, onnx

if onnx is not None:
    from onnx import AttributeProto, TensorProto, helper, numpy_helper

    from . import bodies

IR_VERSION = 8  # of the file format: that of opset 17, which later releases read, too
OPSET, OUTPUTS, CONSTANT = "opset", "outputs", "constant"  # inputs of a case that aren't arguments of an operator
# If an input may have several dtypes, but not the case's, the first of these that it may have.
PREFERRED = ("float32", "int64", "int32", "bool", "uint8", "int8", "float64", "float16", "object")
# Types of attributes, and the fields that hold their values.
FIELDS = {"FLOAT": "f", "INT": "i", "STRING": "s", "FLOATS": "floats", "INTS": "ints", "STRINGS": "strings"}
TENSOR_DTYPES = {"i": "int64", "b": "bool", "U": "object"}  # dtypes of attributes that are tensors, by kind of value


def make_graph(case, plain, arrays):
    """Return ``(bytes, feeds)``: a model of the case's operator alone, and its input arrays by name. Raise
    MissingOperator for an unknown operator, ValueError for arguments that it doesn't have."""
    if onnx is None:
        raise ValueError("a graph of one operator needs the package onnx, which this build doesn't have: install it")
    domain, name = domain_of(case["operator"])
    outputs = take_number(plain, OUTPUTS)
    requested_opset = take_number(plain, OPSET) if domain in USUAL_OPSETS else None  # other domains have only one
    node = Node(case, arrays, take_constants(plain))
    schema, opset = find_schema(domain, name, requested_opset)
    node.add_all(plain, schema)
    imports = {domain: opset} if domain == "" else {"": USUAL_OPSETS[""], domain: opset}
    needed = [output for output in schema.outputs if output.option != "Optional"]
    return node.model(name, domain, imports, outputs or max(1, len(needed))), node.feeds


def take_number(plain, name):
    """Remove a number from the case's inputs and return it, or None if there is none. Raise ValueError."""
    number = plain.pop(name, None)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
        raise ValueError(f"{name} is {number!r}: use a whole number of 1 or more")
    return number


def take_constants(plain):
    """Remove from the case's inputs the names of those that are constants of the graph. Raise ValueError."""
    constant = plain.pop(CONSTANT, None) or {"value": []}
    names = constant.get("value") if isinstance(constant, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f'{CONSTANT} must be {{"value": [names of inputs]}}')
    return names


class Node:
    """The graph's only node: its inputs, fed or constants of the graph, and its attributes."""

    def __init__(self, case, arrays, constant):
        self.case = case
        self.arrays = arrays
        self.constant = constant
        self.names = []  # of its inputs in their order; "" for an input left out
        self.values = []  # descriptions of the fed inputs
        self.feeds = {}
        self.initializers = []
        self.attributes = []
        self.bound = {}  # a type parameter of the schema -> the dtype that an input gave it

    def add_all(self, plain, schema):
        """Add all inputs and attributes by the schema, given by name or in order (``args``). Raise ValueError."""
        positional = [(f"args{number}", argument) for number, argument in enumerate(plain.pop("args", []))]
        input_names = [formal.name for formal in schema.inputs]
        for name in self.constant:
            if name not in input_names:
                raise ValueError(f"{CONSTANT}: {name} is not an input of {schema.name}")
        for formal in schema.inputs:
            argument = plain.pop(formal.name, None)
            if formal.option == "Variadic":
                arguments = [argument] if is_shape(argument) and argument else argument or []
                positional += [(None, part) for part in arguments]
                for number, (drawn, part) in enumerate(positional):
                    self.add_input(f"{formal.name}_{number}", part, formal, drawn)
                positional = []
            elif positional and argument is None:
                drawn, argument = positional.pop(0)
                self.add_input(formal.name, argument, formal, drawn)
            else:
                self.add_input(formal.name, argument, formal)
        while self.names and not self.names[-1]:
            self.names.pop()
        for name, value in plain.items():
            if name not in schema.attributes:
                usable = ", ".join(input_names + sorted(schema.attributes))
                raise ValueError(f"{name} is not an argument of {schema.name}: use {usable}")
            self.add_attribute(name, value, schema.attributes[name][0])
        if positional:
            takes_sequence = any(formal.is_sequence for formal in schema.inputs)
            hint = ': a sequence is one input, {"tuple": [[8], [8]]}' if takes_sequence else ""
            raise ValueError(f"args has more inputs than {schema.name} takes, {len(schema.inputs)}{hint}")

    def add_input(self, name, plain, formal, drawn=None):
        """Add one input by its schema; ``drawn``: the name by which its values are drawn, if it differs."""
        if plain is None:
            self.names.append("")
            return
        dtype = self.dtype_for(plain, formal.dtypes, self.bound.get(formal.type))
        array = self.add_array(name, plain, dtype, formal.is_sequence, drawn)
        first = array[0] if isinstance(array, list) else array
        if formal.type is not None:
            self.bound.setdefault(formal.type, first.dtype.name)

    def dtype_for(self, plain, dtypes, bound):
        """Return the dtype of an input that names none, out of those that the schema allows."""
        if bound in dtypes:
            return bound
        sample = plain.get("value", 0.5) if isinstance(plain, dict) else 0.5 if isinstance(plain, list) else plain
        kind = numpy.array(sample).dtype.kind
        suitable = {"U": ["object"], "b": ["bool"], "i": ["int64", "int32"]}.get(kind, [])
        order = [*suitable, self.case["dtype"], *PREFERRED]
        return next((candidate for candidate in order if candidate in dtypes), self.case["dtype"])

    def add_array(self, name, plain, dtype, is_sequence=False, drawn=None):
        """Add one input and return its array.

        Inputs whose elements are written out, or that the spec calls constant, become part of the graph; but the first
        input is always fed.
        """
        array = self.arrays.make_array(drawn or name, plain, dtype)
        has_values = not isinstance(plain, list) and not (isinstance(plain, dict) and "shape" in plain)
        self.names.append(name)
        if isinstance(array, list):
            element = element_type(array[0].dtype)
            self.values.append(helper.make_tensor_sequence_value_info(name, element, None))
            self.feeds[name] = array
        elif (has_values or name in self.constant) and self.feeds and not is_sequence:
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            self.values.append(helper.make_tensor_value_info(name, element_type(array.dtype), array.shape))
            self.feeds[name] = array
        return array

    def add_attribute(self, name, plain, kind):
        """Add one attribute, of its schema's type. Raise ValueError."""
        value = plain["value"] if isinstance(plain, dict) and "value" in plain else plain
        try:
            if isinstance(plain, dict) and "function" in plain:
                kind, value = None, bodies.make(plain["function"])
            elif kind == "TENSOR":
                kind, value = None, numpy_helper.from_array(self.tensor(name, plain, value))
            self.attributes.append(attribute(name, value, kind) if kind else helper.make_attribute(name, value))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{name}: {value} is not a value of this attribute ({error})") from None

    def tensor(self, name, plain, value):
        """Return the array of an attribute: int64 for integers, else of the case's dtype unless it names another."""
        if isinstance(value, dict):
            return self.arrays.make_array(name, plain, self.case["dtype"])
        return numpy.array(value, TENSOR_DTYPES.get(numpy.array(value).dtype.kind, self.case["dtype"]))

    def model(self, name, domain, imports, outputs):
        """Return the bytes of a model with this node."""
        results = [f"output_{number}" for number in range(outputs)] if outputs > 1 else ["output"]
        node = helper.make_node(name, self.names, results, name="node", domain=domain)
        node.attribute.extend(sorted(self.attributes, key=lambda item: item.name))
        infos = [onnx.ValueInfoProto(name=item) for item in results]
        graph = helper.make_graph([node], "opduel", self.values, infos, self.initializers)
        opsets = [helper.make_opsetid(item, version) for item, version in sorted(imports.items())]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="opduel")
        return model.SerializeToString(deterministic=True)


def element_type(dtype):
    """Return ONNX's number of a NumPy dtype."""
    if dtype.kind in "OU":
        return TensorProto.STRING
    return numpy_helper.from_array(numpy.zeros(0, dtype)).data_type


def attribute(name, value, kind):
    """Return an attribute of the schema's type; ``make_attribute`` would guess, and take [1, 2] for integers."""
    if kind not in FIELDS:
        raise ValueError(f"a spec can't express a value of the type {kind}")
    if kind == "STRING":
        value = value.encode("utf-8")
    elif kind == "STRINGS":
        value = [text.encode("utf-8") for text in value]
    return AttributeProto(name=name, type=AttributeProto.AttributeType.Value(kind), **{FIELDS[kind]: value})
