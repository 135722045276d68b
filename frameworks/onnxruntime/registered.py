"""What operators a build has: run by path in its interpreter. Standard library, onnx, onnxruntime; Python 3.6 syntax.

Prints one JSON document on stdout, whatever ONNX Runtime prints:
    {"version": str,
     "registered": {name: [alias, ...]}        an operator that the CPU provider registers -> what the profiler calls it
     "functions": {"onnx.Conv": {"registered": name or null, "arguments": [[name, kind], ...], "dtype": false}}}
An argument's kind is "tensor", "tensors" (a variadic operator's), "required" or "optional". An operator that no kernel
is registered for is none of "registered": ONNX Runtime runs it as a graph of others.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, whose modules hide the build's

from opduel_common.scripts import answer, load_adaptor

PREFIXES = {"": "onnx", "ai.onnx.ml": "onnx.ml"}
OURS = ("opset", "outputs", "constant", "session")  # inputs of a case that are no argument of an operator
CPU = "CPUExecutionProvider"


def spec_name(domain, name):
    """An operator as a spec has it."""
    return f"{PREFIXES.get(domain, domain)}.{name}"


def kernels(state):
    """``{(domain, name)}`` of what the CPU provider registers. Raises RuntimeError where the build can't be asked."""
    ask = getattr(state, "get_all_opkernel_def", None)
    if ask is None:
        raise RuntimeError("this build can't list its kernels: those of PyPI can since 1.16")
    return {(one.domain, one.op_name) for one in ask() if one.provider == CPU}


def arguments_of(schemas, domain, name):
    """``[[name, kind], ...]`` in the opset that a case has which says none; then those of other opsets, and ours."""
    try:
        usual = schemas.find_schema(domain, name)[0]
    except schemas.MissingOperator:  # deprecated: a case says an opset
        usual = None
    found = {}
    for schema in [usual] if usual else []:
        for one in schema.inputs:
            kinds = {"Single": "tensor", "Variadic": "tensors" if one.least else "optional"}
            found[one.name] = kinds.get(one.option, "optional")
        for attribute, (_, required) in sorted(schema.attributes.items()):
            found[attribute] = "required" if required else "optional"
    for one in schemas.versions_of(domain, name):
        for other in [each.name for each in one.inputs] + sorted(one.attributes):
            found.setdefault(other, "optional")
    for own in OURS:
        found.setdefault(own, "optional")
    return [list(one) for one in found.items()]


def document():
    adaptor = load_adaptor(HERE)
    schemas, state = adaptor.schemas, adaptor.schemas.state
    registered = kernels(state)
    known = {
        (one.domain, one.name) for one in schemas.onnx.defs.get_all_schemas_with_history() if one.domain in PREFIXES
    }
    plain = {name for domain, name in registered if domain == ""}
    aliases = {}
    for domain, name in sorted(registered):
        own = spec_name(domain, name)
        aliases[own] = [own] + ([name] if domain == "" or name not in plain else [])
    functions = {
        spec_name(domain, name): {
            "registered": spec_name(domain, name) if (domain, name) in registered else None,
            "arguments": arguments_of(schemas, domain, name),
            "dtype": False,
        }
        for domain, name in sorted(registered | known)
    }
    return {"version": adaptor.onnxruntime.__version__, "registered": aliases, "functions": functions}


if __name__ == "__main__":
    answer(document)
