"""List a build's operators: run by path in its interpreter. Standard library, onnx, onnxruntime; Python 3.6 syntax.

Prints one JSON document on stdout:
    {"version": str,
     "registered": {name: [alias, ...]}        an operator that the CPU provider registers -> what the profiler calls it
     "functions": {"onnx.Conv": {"registered": name or null, "arguments": [[name, kind], ...], "dtype": false}}}
An argument's kind is "tensor", "tensors" (a variadic operator's), "required" or "optional". An operator without a
kernel isn't in "registered": ONNX Runtime runs it as a graph of others.
"""

import contextlib
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, which would hide modules

from opduel_common.scripts import answer, load_adaptor

PREFIXES = {"": "onnx", "ai.onnx.ml": "onnx.ml"}
CASE_INPUTS = ("opset", "outputs", "constant", "session")  # inputs of a case that aren't arguments of an operator
CPU = "CPUExecutionProvider"


def spec_name(domain, name):
    """Return an operator's name in specs."""
    return f"{PREFIXES.get(domain, domain)}.{name}"


def kernels(state):
    """Return ``{(domain, name)}`` of the CPU provider's kernels. Raise RuntimeError if the build can't list them."""
    if not hasattr(state, "get_all_opkernel_def"):
        raise RuntimeError("this build can't list its kernels: those of PyPI can since 1.16")
    return {(kernel.domain, kernel.op_name) for kernel in state.get_all_opkernel_def() if kernel.provider == CPU}


def arguments_of(schemas, domain, name):
    """Return ``[[name, kind], ...]`` of the usual opset, then of other opsets, then of ``CASE_INPUTS``."""
    kind_by_name = {}
    with contextlib.suppress(schemas.MissingOperator):  # deprecated: a case says an opset
        usual = schemas.find_schema(domain, name)[0]
        for formal in usual.inputs:
            kinds = {"Single": "tensor", "Variadic": "tensors" if formal.min_count else "optional"}
            kind_by_name[formal.name] = kinds.get(formal.option, "optional")
        for attribute, (_, required) in sorted(usual.attributes.items()):
            kind_by_name[attribute] = "required" if required else "optional"
    for version in schemas.versions_of(domain, name):
        for argument in [parameter.name for parameter in version.inputs] + sorted(version.attributes):
            kind_by_name.setdefault(argument, "optional")
    return [*map(list, kind_by_name.items()), *([name, "optional"] for name in CASE_INPUTS if name not in kind_by_name)]


def document():
    adaptor = load_adaptor(HERE)
    schemas, state = adaptor.schemas, adaptor.schemas.state
    registered = kernels(state)
    onnx_operators = {
        (schema.domain, schema.name)
        for schema in schemas.onnx.defs.get_all_schemas_with_history()
        if schema.domain in PREFIXES
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
        for domain, name in sorted(registered | onnx_operators)
    }
    return {"version": adaptor.onnxruntime.__version__, "registered": aliases, "functions": functions}


if __name__ == "__main__":
    answer(document)
