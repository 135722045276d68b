"""Find an operator's schema: its inputs, their types, and its attributes.

The onnx package has the schemas of ONNX's own domains, the same on both sides.  ONNX Runtime has those of other
domains, and of operators that ONNX has dropped, if its build lists them: that of PyPI does since 1.16.
"""

from collections import namedtuple

from onnxruntime.capi import onnxruntime_pybind11_state as state

from opduel_common.names import MissingOperator

try:
    import onnx
except ImportError:  # such a build runs models, but no single operators
    onnx = None

DOMAINS = {"onnx": "", "onnx.ml": "ai.onnx.ml"}  # domains by the names in specs; other names are domains themselves
# The opsets of cases that name none, which releases from 1.12 on have. A newer operator has its first opset.
USUAL_OPSETS = {"": 17, "ai.onnx.ml": 3}
NUMPY_TYPES = {"float": "float32", "double": "float64", "string": "object"}  # other names are the same

# ``option``: "Single", "Optional" or "Variadic". ``type``: the same for inputs that must have one dtype, or None.
# ``dtypes``: NumPy's names, for a sequence those of its elements. ``min_count``: how many a variadic one needs.
Formal = namedtuple("Formal", "name option type dtypes is_sequence min_count")
# ``attributes``: name -> (type such as "INTS", whether it is required).
Schema = namedtuple("Schema", "name inputs outputs attributes")


def domain_of(operator):
    """Return ``(domain, name)`` of an operator in a spec: ``onnx.ml.Scaler`` is in ``ai.onnx.ml``."""
    prefix, _, name = operator.rpartition(".")
    return DOMAINS.get(prefix, prefix), name


def schemas_of_build():
    """Return the build's schemas of all versions, or none if it can't list them."""
    ask = getattr(state, "get_all_operator_schema", None)
    return ask() if ask else []


def versions_of(domain, name):
    """Return an operator's schemas of all versions from the onnx package, or else from the build."""
    versions = [
        schema for schema in onnx.defs.get_all_schemas_with_history() if (schema.domain, schema.name) == (domain, name)
    ]
    return versions or [schema for schema in schemas_of_build() if (schema.domain, schema.name) == (domain, name)]


def find_schema(domain, name, opset=None):
    """Return ``(schema, opset)`` of an operator in an opset, or in the usual one. Raise MissingOperator if neither ONNX
    nor the build has such an operator."""
    versions = versions_of(domain, name)
    if not versions:
        raise MissingOperator(f"there is no operator {name} in the domain {domain or 'ai.onnx'}")
    first = min(version.since_version for version in versions)
    opset = max(USUAL_OPSETS.get(domain, 1), first) if opset is None else opset
    if first > opset:
        raise MissingOperator(f"{name} exists from opset {first} on: give a later one")
    usable = [version for version in versions if version.since_version <= opset]
    schema = max(usable, key=lambda version: version.since_version)
    if schema.deprecated:
        raise MissingOperator(f"{name} is deprecated since opset {schema.since_version}: give an earlier one")
    return to_schema(schema), opset


def to_schema(schema):
    """Convert a schema of either library."""
    return Schema(
        schema.name,
        [to_formal(schema, parameter) for parameter in schema.inputs],
        [to_formal(schema, parameter) for parameter in schema.outputs],
        {name: (enum_name(attribute.type), attribute.required) for name, attribute in schema.attributes.items()},
    )


def to_formal(schema, parameter):
    type_name = parameter.type_str if hasattr(parameter, "type_str") else parameter.typeStr
    constraints = [constraint for constraint in schema.type_constraints if constraint.type_param_str == type_name]
    types = {kind for constraint in constraints for kind in constraint.allowed_type_strs} or {type_name}
    single = {kind[len("tensor(") : -1] for kind in types if kind.startswith("tensor(")}
    several = {kind[len("seq(tensor(") : -2] for kind in types if kind.startswith("seq(tensor(")}
    dtypes = {NUMPY_TYPES.get(kind, kind) for kind in single or several}
    is_homogeneous = parameter.is_homogeneous if hasattr(parameter, "is_homogeneous") else parameter.isHomogeneous
    shared, option = type_name if is_homogeneous else None, enum_name(parameter.option)
    is_sequence, min_count = bool(several and not single), getattr(parameter, "min_arity", 1)
    return Formal(parameter.name, option, shared, dtypes, is_sequence, min_count)


def enum_name(enumerated):
    """Return the name of a value of an enumeration."""
    return str(enumerated).rpartition(".")[2]
