"""An operator as a graph of one node, from a case's plain data: the same bytes on both sides, made by the onnx package.

What is an input and what an attribute, their order and their types are from the operator's schema.  The onnx package
has those of ONNX's own domains; of an operator in another domain a shape or a tensor is an input, in the order of the
spec, and anything else an attribute.
"""

import numpy

from opduel_common.inputs import is_shape

from .schemas import USUAL_OPSETS, domain_of, find_schema, onnx

if onnx is not None:
    from onnx import AttributeProto, TensorProto, helper, numpy_helper

    from . import bodies

IR_VERSION = 8  # of the file format: that of opset 17, which later releases read, too
OPSET, OUTPUTS, CONSTANT = "opset", "outputs", "constant"  # inputs of a case that are no argument of an operator
# Where a type is free, and the case's dtype isn't one of those allowed, the first of these that is.
PREFERRED = ("float32", "int64", "int32", "bool", "uint8", "int8", "float64", "float16", "object")
WHOLE = {"i": "int64", "b": "bool", "U": "object"}  # the dtype of an attribute that is a tensor, by its values' kind


def make_graph(case, plain, arrays):
    """``(bytes, feeds)``: a model of the case's operator alone, and the arrays that it is fed by name.

    Raises MissingOperator for an operator that nobody knows; ValueError for arguments that it doesn't have.
    """
    if onnx is None:
        raise ValueError("a graph of one operator needs the package onnx, which this build doesn't have: install it")
    domain, name = domain_of(case["operator"])
    outputs = a_number(plain, OUTPUTS)
    said = a_number(plain, OPSET) if domain in USUAL_OPSETS else None  # other domains have but one
    node = Node(case, arrays, constants_of(plain))
    schema, opset = find_schema(domain, name, said)
    if schema is None:
        node.take_unknown(plain)
    else:
        node.take(plain, schema)
    imports = {domain: opset} if domain == "" else {"": USUAL_OPSETS[""], domain: opset}
    needed = [one for one in schema.outputs if one.option != "Optional"] if schema else []
    return node.model(name, domain, imports, outputs or max(1, len(needed))), node.feeds


def a_number(plain, name):
    """The number that a case says, taken out of its inputs; None where it says none. Raises ValueError."""
    found = plain.pop(name, None)
    if found is not None and (not isinstance(found, int) or isinstance(found, bool) or found < 1):
        raise ValueError("{} is {!r}: use a whole number of 1 or more".format(name, found))
    return found


def constants_of(plain):
    """The names of the inputs that are constants of the graph, taken out of a case's inputs. Raises ValueError."""
    found = plain.pop(CONSTANT, None) or {"value": []}
    names = found.get("value") if isinstance(found, dict) else None
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ValueError('{} must be {{"value": [names of inputs]}}'.format(CONSTANT))
    return names


def in_order(plain):
    """``args``, taken out of a case's inputs, each with the name that all frameworks draw its values by."""
    return [("args{}".format(number), one) for number, one in enumerate(plain.pop("args", []))]


class Node:
    """The one node: its inputs, what of them is fed and what is a constant of the graph, and its attributes."""

    def __init__(self, case, arrays, constant):
        self.case = case
        self.arrays = arrays
        self.constant = constant
        self.names = []  # of its inputs in their order; an empty one is left out
        self.values = []  # descriptions of what is fed
        self.feeds = {}
        self.initializers = []
        self.attributes = []
        self.bound = {}  # a type parameter of the schema -> the dtype that an input gave it

    def take(self, plain, schema):
        """Everything that is given, as the schema has it: by name, or in order (``args``). Raises ValueError."""
        placed = in_order(plain)
        for name in self.constant:
            if name not in [one.name for one in schema.inputs]:
                raise ValueError("{}: {} is not an input of {}".format(CONSTANT, name, schema.name))
        for formal in schema.inputs:
            given = plain.pop(formal.name) if formal.name in plain else None
            if formal.option == "Variadic":
                given = [given] if is_shape(given) and given else given or []
                for number, (drawn, one) in enumerate(placed + [(None, one) for one in given]):
                    self.add_input("{}_{}".format(formal.name, number), one, formal, drawn)
                placed = []
            else:
                drawn, given = placed.pop(0) if placed and given is None else (None, given)
                self.add_input(formal.name, given, formal, drawn)
        while self.names and not self.names[-1]:
            self.names.pop()
        for name, given in plain.items():
            if name not in schema.attributes:
                known = [one.name for one in schema.inputs] + sorted(schema.attributes)
                raise ValueError("{} is not an argument of {}: use {}".format(name, schema.name, ", ".join(known)))
            self.add_attribute(name, given, schema.attributes[name][0])
        if placed:
            hint = (
                ': a sequence is one input, {"tuple": [[8], [8]]}'
                if any(one.is_sequence for one in schema.inputs)
                else ""
            )
            raise ValueError("args has more inputs than {} takes, {}{}".format(schema.name, len(schema.inputs), hint))

    def take_unknown(self, plain):
        """Everything that is given, without a schema."""
        for drawn, one in in_order(plain):
            self.add_array(drawn, one, self.case["dtype"])
        for name, given in plain.items():
            if given is None:
                self.names.append("")
            elif isinstance(given, list) or (isinstance(given, dict) and "shape" in given):
                self.add_array(name, given, self.case["dtype"])
            else:
                self.add_attribute(name, given, None)

    def add_input(self, name, plain, formal, drawn=None):
        """One input as the schema has it; ``drawn``: the name that its values are drawn by, if that is another."""
        if plain is None:
            self.names.append("")
            return
        dtype = self.dtype_for(plain, formal.dtypes, self.bound.get(formal.type))
        made = self.add_array(name, plain, dtype, formal.is_sequence, drawn)
        first = made[0] if isinstance(made, list) else made
        if formal.type is not None:
            self.bound.setdefault(formal.type, first.dtype.name)

    def dtype_for(self, plain, dtypes, bound):
        """The dtype of an input that says none itself, of those that the schema allows."""
        if bound in dtypes:
            return bound
        said = plain.get("value", 0.5) if isinstance(plain, dict) else 0.5 if isinstance(plain, list) else plain
        kind = numpy.array(said).dtype.kind
        wanted = {"U": ["object"], "b": ["bool"], "i": ["int64", "int32"]}.get(kind, [])
        order = [*wanted, self.case["dtype"], *PREFERRED]
        return next((one for one in order if one in dtypes), self.case["dtype"])

    def add_array(self, name, plain, dtype, is_sequence=False, drawn=None):
        """One input. Elements that the spec gives, and what it names as constant, are part of the graph; the first
        input is fed."""
        made = self.arrays.typed(drawn or name, plain, dtype)
        said = not isinstance(plain, list) and not (isinstance(plain, dict) and "shape" in plain)
        self.names.append(name)
        if isinstance(made, list):
            element = element_type(made[0].dtype)
            self.values.append(helper.make_tensor_sequence_value_info(name, element, None))
            self.feeds[name] = made
        elif (said or name in self.constant) and self.feeds and not is_sequence:
            self.initializers.append(numpy_helper.from_array(made, name))
        else:
            self.values.append(helper.make_tensor_value_info(name, element_type(made.dtype), made.shape))
            self.feeds[name] = made
        return made

    def add_attribute(self, name, plain, kind):
        """One attribute, as its schema's type has it; without a schema as the value suggests. Raises ValueError."""
        value = plain["value"] if isinstance(plain, dict) and "value" in plain else plain
        try:
            if isinstance(plain, dict) and "function" in plain:
                made = helper.make_attribute(name, bodies.make(plain["function"]))
            elif kind == "TENSOR":
                made = helper.make_attribute(name, numpy_helper.from_array(self.tensor(name, plain, value)))
            elif kind is None:
                made = helper.make_attribute(name, value)
            else:
                made = attribute(name, value, kind)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError("{}: {} is not a value of this attribute ({})".format(name, value, error)) from None
        self.attributes.append(made)

    def tensor(self, name, plain, value):
        """An attribute that is a tensor: whole numbers are int64, others of the case's dtype unless it says one."""
        if isinstance(value, dict):
            return self.arrays.typed(name, plain, self.case["dtype"])
        return numpy.array(value, WHOLE.get(numpy.array(value).dtype.kind, self.case["dtype"]))

    def model(self, name, domain, imports, outputs):
        """The bytes of a model with this node."""
        results = ["output_{}".format(number) for number in range(outputs)] if outputs > 1 else ["output"]
        node = helper.make_node(name, self.names, results, name="node", domain=domain)
        node.attribute.extend(sorted(self.attributes, key=lambda one: one.name))
        infos = [onnx.ValueInfoProto(name=one) for one in results]
        graph = helper.make_graph([node], "opduel", self.values, infos, self.initializers)
        opsets = [helper.make_opsetid(one, version) for one, version in sorted(imports.items())]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="opduel")
        return model.SerializeToString(deterministic=True)


def element_type(dtype):
    """ONNX's number of a NumPy dtype."""
    if dtype.kind in "OU":
        return TensorProto.STRING
    return numpy_helper.from_array(numpy.zeros(0, dtype)).data_type


def attribute(name, value, kind):
    """An attribute of a type that the schema says: ``make_attribute`` guesses, and takes [1, 2] for integers."""
    made = AttributeProto(name=name, type=AttributeProto.AttributeType.Value(kind))
    if kind == "FLOAT":
        made.f = value
    elif kind == "INT":
        made.i = value
    elif kind == "STRING":
        made.s = value.encode("utf-8")
    elif kind == "FLOATS":
        made.floats.extend(value)
    elif kind == "INTS":
        made.ints.extend(value)
    elif kind == "STRINGS":
        made.strings.extend(one.encode("utf-8") for one in value)
    else:
        raise ValueError("a spec can't express a value of the type {}".format(kind))
    return made
