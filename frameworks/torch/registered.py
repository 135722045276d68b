"""What operators a build has: run by path in its own interpreter. Standard library and PyTorch, Python 3.6 syntax.

Prints one JSON document on stdout, whatever PyTorch prints:
    {"version": str,
     "registered": {"aten::add": ["aten::add.Tensor", ...]}   an operator -> the names of its overloads
     "functions": {"torch.add": {"registered": "aten::add" or null, "arguments": [[name, kind], ...], "dtype": bool}}}
An argument's kind is "tensor", "required" or "optional".  Those of a builtin function are those of the operator's
schema, as ``torch._C._jit_get_all_schemas`` has it, of a function in Python its own, and of a module those of its call
and then its constructor's.
"""

import inspect
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(os.path.dirname(HERE), "common")  # in place of this folder, whose modules hide the build's

import torch
import torch.nn.functional

from opduel_common.scripts import answer

# Where functions live, and how the names of the operators begin that they call.
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
USUAL = ("", "Tensor", "self", "dim", "default")  # of the overloads that a name has, the first that is there
TENSOR = ("Tensor", "List[Tensor]")


def schemas():
    """``{name: [schema, ...]}`` of the library's operators, without those that write into ``out``."""
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name
        if name.startswith(LIBRARY) and not any(one.is_out for one in schema.arguments):
            found.setdefault(name, []).append(schema)
    return found


def usual(overloads):
    """The overload that a case is made for."""
    for name in USUAL:
        for one in overloads:
            if one.overload_name == name:
                return one
    return max(overloads, key=lambda one: len([each for each in one.arguments if str(each.type) == "Tensor"]))


def of_schema(schema, first):
    """``[[name, kind], ...]``; ``first`` is what the function calls the operator's ``self``."""
    found = []
    for one in schema.arguments:
        if one.name not in NOT_ARGUMENTS:
            required = not one.has_default_value()
            kind = "optional" if not required else "tensor" if str(one.type) in TENSOR else "required"
            found.append([first if one.name == "self" else one.name, kind])
    return found


def of_python(parameters):
    """``[[name, kind], ...]`` of a function's own parameters; whether one is a tensor is not known."""
    return [
        [one.name, "required" if one.default is one.empty else "optional"]
        for one in parameters
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and one.name not in NOT_ARGUMENTS
    ]


def signature_of(function):
    """The parameters of a function in Python, or None."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def functions_of(known):
    """Every public function and method of the namespaces, by its dotted name."""
    found, seen = {}, set()
    for namespace, prefix in NAMESPACES:
        place = torch
        for part in namespace.split(".")[1:]:
            place = getattr(place, part, None)
        is_method = inspect.isclass(place)
        for name in sorted(dir(place)):
            function = getattr(place, name, None)
            if name.startswith("_") or inspect.isclass(function) or not callable(function):
                continue
            if not is_method and (id(function) in seen or not belongs(function)):
                continue
            seen.add(id(function))
            overloads = known.get(LIBRARY + prefix + name)
            parameters = signature_of(function)
            if parameters is not None:
                arguments = of_python(parameters)
            elif overloads:
                arguments = of_schema(usual(overloads), "self" if is_method else "input")
            else:
                continue
            found[namespace + "." + name] = described(arguments, LIBRARY + prefix + name if overloads else None)
    return found


def belongs(function):
    """Whether a function is PyTorch's own, and no helper that a module imports."""
    module = getattr(function, "__module__", None) or "torch"
    return module.partition(".")[0] == "torch"


def modules_of():
    """Every module of ``torch.nn`` that can be called."""
    found = {}
    for name in sorted(dir(torch.nn)):
        kind = getattr(torch.nn, name)
        if inspect.isclass(kind) and issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module:
            call = of_python(list(inspect.signature(kind.forward).parameters.values())[1:])
            made = []
            for base in kind.__mro__:
                if "__init__" in vars(base) and base is not torch.nn.Module:
                    own = list(inspect.signature(base.__init__).parameters.values())[1:]
                    made += [one for one in of_python(own) if one[0] not in [each[0] for each in made + call]]
                    if not any(one.kind == one.VAR_KEYWORD for one in own):
                        break
            if issubclass(kind, torch.nn.Sequential):
                made.append(["layers", "required"])
            found["torch.nn." + name] = described(call + made, None)
    return found


def described(arguments, registered):
    return {
        "registered": registered,
        "arguments": arguments,
        "dtype": any(name == "dtype" for name, _ in arguments),
    }


def document():
    known = schemas()
    registered = {
        name: [".".join(filter(None, (name, one.overload_name))) for one in overloads]
        for name, overloads in sorted(known.items())
    }
    functions = dict(functions_of(known), **modules_of())
    return {"version": torch.__version__, "registered": registered, "functions": functions}


if __name__ == "__main__":
    answer(document)
