"""List a build's operators: run by path in its interpreter. Standard library and PyTorch, Python 3.6 syntax.

Prints one JSON document on stdout:
    {"version": str,
     "registered": {"aten::add": ["aten::add.Tensor", ...]}   an operator -> the names of its overloads
     "functions": {"torch.add": {"registered": "aten::add" or null, "arguments": [[name, kind], ...], "dtype": bool}}}
An argument's kind is "tensor", "required" or "optional".  A builtin function has the arguments of the operator's schema
(``torch._C._jit_get_all_schemas``), a function in Python its own, and a module those of its call and its constructor.
"""

import inspect
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, which would hide modules

import torch
import torch.nn.functional

from opduel_common.names import constructor_parameters
from opduel_common.scripts import answer, list_arguments

# Namespaces of functions, and the prefix of the operators that they call.
NAMESPACES = (
    ("torch", ""),
    ("torch.nn.functional", ""),
    ("torch.linalg", "linalg_"),
    ("torch.fft", "fft_"),
    ("torch.special", "special_"),
    ("torch.Tensor", ""),
)
LIBRARY = "aten::"
NOT_ARGUMENTS = ("out", "names", "generator")
USUAL = ("", "Tensor", "self", "dim", "default")  # of a name's overloads, the first of these
TENSOR = ("Tensor", "List[Tensor]")


def schemas():
    """Return ``{name: [schema, ...]}`` of the library's operators, without those that write into ``out``."""
    schemas_by_name = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name
        if name.startswith(LIBRARY) and not any(argument.is_out for argument in schema.arguments):
            schemas_by_name.setdefault(name, []).append(schema)
    return schemas_by_name


def usual_overload(overloads):
    """Return the overload that a case calls."""
    overload_by_name = {overload.overload_name: overload for overload in reversed(overloads)}
    usual = [overload_by_name[name] for name in USUAL if name in overload_by_name]
    return (
        usual[0]
        if usual
        else max(overloads, key=lambda overload: [str(part.type) for part in overload.arguments].count("Tensor"))
    )


def arguments_of_schema(schema, first):
    """Return ``[[name, kind], ...]``; ``first`` is the function's name for the operator's ``self``."""
    arguments = []
    for argument in schema.arguments:
        if argument.name not in NOT_ARGUMENTS:
            required = not argument.has_default_value()
            kind = "optional" if not required else "tensor" if str(argument.type) in TENSOR else "required"
            arguments.append([first if argument.name == "self" else argument.name, kind])
    return arguments


def arguments_of_function(function, is_method, overloads):
    """Return ``[[name, kind], ...]`` of a function, or None if it has neither a signature nor a schema.

    Whether an argument of a function in Python is a tensor is unknown.
    """
    try:
        return list_arguments(inspect.signature(function).parameters.values(), NOT_ARGUMENTS)
    except (TypeError, ValueError):
        return arguments_of_schema(usual_overload(overloads), "self" if is_method else "input") if overloads else None


def functions_of(schemas_by_name):
    """Describe every public function and method of the namespaces, by its dotted name."""
    functions, seen_ids = {}, set()
    for namespace, prefix in NAMESPACES:
        namespace_object = torch
        for part in namespace.split(".")[1:]:
            namespace_object = getattr(namespace_object, part, None)
        is_method = inspect.isclass(namespace_object)
        for name in sorted(dir(namespace_object)):
            function = getattr(namespace_object, name, None)
            if name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            if not is_method and (id(function) in seen_ids or not is_of_torch(function)):
                continue
            seen_ids.add(id(function))
            registered = LIBRARY + prefix + name
            arguments = arguments_of_function(function, is_method, schemas_by_name.get(registered))
            if arguments is not None:
                own = registered if registered in schemas_by_name else None
                functions[namespace + "." + name] = describe_function(arguments, own)
    return functions


def is_of_torch(function):
    """Return whether a function is PyTorch's own, not a helper that a module imports."""
    module = getattr(function, "__module__", None) or "torch"
    return module.partition(".")[0] == "torch"


def modules_of():
    """Describe every module of ``torch.nn`` that can be called."""
    modules = {}
    for name in sorted(dir(torch.nn)):
        kind = getattr(torch.nn, name)
        if inspect.isclass(kind) and issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module:
            call = list_arguments(inspect.signature(kind.forward).parameters.values(), (*NOT_ARGUMENTS, "self"))
            call_names = [argument for argument, _ in call]
            constructor = list_arguments(constructor_parameters(kind), (*NOT_ARGUMENTS, *call_names))
            layers = [["layers", "required"]] if issubclass(kind, torch.nn.Sequential) else []
            modules["torch.nn." + name] = describe_function(call + constructor + layers, None)
    return modules


def describe_function(arguments, registered):
    return {
        "registered": registered,
        "arguments": arguments,
        "dtype": any(name == "dtype" for name, _ in arguments),
    }


def document():
    schemas_by_name = schemas()
    registered = {
        name: [".".join(filter(None, (name, schema.overload_name))) for schema in overloads]
        for name, overloads in sorted(schemas_by_name.items())
    }
    functions = dict(functions_of(schemas_by_name), **modules_of())
    return {"version": torch.__version__, "registered": registered, "functions": functions}


if __name__ == "__main__":
    answer(document)
