"""What an operator takes: its inputs, their types and its attributes, as the onnx package says, or else the build.

The onnx package has the schemas of ONNX's own domains, the same on both sides.  Those of others, and of operators that
ONNX has dropped, are asked of ONNX Runtime, where its build has them: that of PyPI does since 1.16.
"""

from collections import namedtuple

from onnxruntime.capi import onnxruntime_pybind11_state as state

from .messages import MissingOperator

try:
    import onnx
except ImportError:  # a build without it runs models, and no single operators
    onnx = None

DOMAINS = {"onnx": "", "onnx.ml": "ai.onnx.ml"}  # as a spec says them; others are domains as they are
# Of a case that says none: releases from 1.12 on have it. An operator that is newer has its first.
USUAL_OPSETS = {"": 17, "ai.onnx.ml": 3}
NUMPY_TYPES = {"float": "float32", "double": "float64", "string": "object"}  # others have the same name

# ``option``: "Single", "Optional" or "Variadic". ``type``: what inputs of one type share; None of several types.
# ``dtypes``: NumPy's names, of a sequence those of what it holds. ``least``: how many a variadic one needs.
Formal = namedtuple("Formal", "name option type dtypes is_sequence least")
# ``attributes``: name -> (type such as "INTS", whether it is required).
Schema = namedtuple("Schema", "name domain since inputs outputs attributes")


def domain_of(operator):
    """``(domain, name)`` of an operator as a spec has it: ``onnx.ml.Scaler`` is in ``ai.onnx.ml``."""
    prefix, _, name = operator.rpartition(".")
    return DOMAINS.get(prefix, prefix), name


def schemas_of_build():
    """Every schema, of every version, that the build says it has; none where it can't be asked."""
    ask = getattr(state, "get_all_operator_schema", None)
    return ask() if ask else []


def versions_of(domain, name):
    """An operator's schemas of all versions, as onnx has them, or else the build."""
    versions = [one for one in onnx.defs.get_all_schemas_with_history() if (one.domain, one.name) == (domain, name)]
    return versions or [one for one in schemas_of_build() if (one.domain, one.name) == (domain, name)]


def find_schema(domain, name, opset=None):
    """``(schema, opset)`` of an operator in an opset, or in the usual one; the schema is None where nobody knows it.

    Raises MissingOperator where ONNX has no such operator, and the build hasn't either.
    """
    versions = versions_of(domain, name)
    if not versions and (domain in USUAL_OPSETS or schemas_of_build()):
        raise MissingOperator("there is no operator {} in the domain {}".format(name, domain or "ai.onnx"))
    if opset is None:
        opset = max([USUAL_OPSETS.get(domain, 1)] + [min(one.since_version for one in versions)] * bool(versions))
    known = [one for one in versions if one.since_version <= opset]
    if versions and not known:
        first = min(one.since_version for one in versions)
        raise MissingOperator("{} exists from opset {} on: give a later one".format(name, first))
    schema = max(known, key=lambda one: one.since_version) if known else None
    if schema is not None and schema.deprecated:
        words = "{} is deprecated since opset {}: give an earlier one"
        raise MissingOperator(words.format(name, schema.since_version))
    return schema and plain(schema), opset


def plain(schema):
    """A schema of either library in one form."""
    return Schema(
        schema.name,
        schema.domain,
        schema.since_version,
        [formal(schema, one) for one in schema.inputs],
        [formal(schema, one) for one in schema.outputs],
        {name: (word(one.type), one.required) for name, one in schema.attributes.items()},
    )


def formal(schema, one):
    type_name = one.type_str if hasattr(one, "type_str") else one.typeStr
    constraints = [each for each in schema.type_constraints if each.type_param_str == type_name]
    types = {kind for each in constraints for kind in each.allowed_type_strs} or {type_name}
    single = {kind[len("tensor(") : -1] for kind in types if kind.startswith("tensor(")}
    several = {kind[len("seq(tensor(") : -2] for kind in types if kind.startswith("seq(tensor(")}
    dtypes = {NUMPY_TYPES.get(kind, kind) for kind in single or several}
    alike = one.is_homogeneous if hasattr(one, "is_homogeneous") else one.isHomogeneous
    shared = type_name if alike else None
    return Formal(
        one.name, word(one.option), shared, dtypes, bool(several and not single), getattr(one, "min_arity", 1)
    )


def word(enumerated):
    """The name of one value of an enumeration."""
    return str(enumerated).rpartition(".")[2]
