"""Make a spec of a network's distinct operator calls, whose shapes and types a build infers."""

import fnmatch
import glob
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opduel.driver.catalogue.registry import ask_build
from opduel.driver.catalogue.rules import Rules
from opduel.driver.catalogue.write import spec_text
from opduel.frameworks import Framework
from opduel.records import Build, UsageError
from opduel.support.digests import file_digest

TIMEOUT_S = 300.0  # a large model of the zoo takes half a minute
MAX_IDENTIFIER = 90  # the spec's own limit, less a number


@dataclass(frozen=True)
class Input:
    """An input of a network: its shape and dtype."""

    shape: Sequence[int]
    dtype: str = "float32"


@dataclass(frozen=True)
class Source:
    """The source of a network: a model of the framework, a saved symbol, or a class in a Python file."""

    name: str  # of the model, of the symbol's file without its suffixes, or of the class
    symbol: Path | None = None
    module: Path | None = None


def network_source(text: str) -> Source:
    """Parse ``resnet18_v1``, ``net-symbol.json``, or ``net.py:Net`` (``net:Net`` for short). UsageError: a file that
    isn't there, or a class's name that is none."""
    path = Path(os.path.expanduser(text))
    file, colon, name = text.rpartition(":")
    module = Path(os.path.expanduser(file if file.endswith(".py") else f"{file}.py"))
    if path.is_file() and path.suffix != ".py":
        return Source(path.name.removesuffix(".json").removesuffix("-symbol"), symbol=path.absolute())
    if colon and module.is_file() and re.fullmatch(r"_?[A-Za-z][A-Za-z0-9_]*", name):
        return Source(name, module=module.absolute())
    if colon or path.suffix in (".json", ".py") or "/" in text:
        raise UsageError(f"{text}: is no network: give FILE.py:CLASS, a saved symbol, or the name of a model")
    return Source(text)


@dataclass(frozen=True)
class Call:
    """Calls of one operator on the same inputs."""

    functions: Sequence[str]  # names for one operator, the best first
    inputs: Mapping[str, Any]  # as in a spec, every tensor in its long form
    times: int  # how often the network makes it


@dataclass(frozen=True)
class Network:
    """The operator calls of a network."""

    version: str  # the framework's that was asked
    calls: Sequence[Call]  # in the order of their first
    left_out: Mapping[str, str]  # operator -> why its calls are not there


def ask_network(
    build: Build,
    framework: Framework,
    network: str,
    inputs: Mapping[str, Input],
    values: Mapping[str, Any] | None = None,
) -> Network:
    """Return the calls of ``network``, which is written as ``network_source`` takes it.

    ``inputs`` are its tensors.  ``values`` are all its inputs as a spec has them, which a block of a Python file needs:
    its constructor's arguments are among them (default: ``inputs``). UsageError: no such network, a file that holds
    none, inputs that it doesn't have or that are missing; RunError: the build's answer is missing or not understood.
    """
    script = framework.scripts.network
    if script is None:
        raise UsageError(f"{framework.name} has no networks to read: write a spec by hand")
    source = network_source(network)
    question = {
        "file": str(source.symbol) if source.symbol else None,
        "zoo": None if source.symbol or source.module else source.name,
        "block": {"module": str(source.module), "name": source.name} if source.module else None,
        "inputs": dict(values or {name: list(tensor.shape) for name, tensor in inputs.items()}),
        "shapes": {name: list(tensor.shape) for name, tensor in inputs.items()},
        "dtypes": {name: tensor.dtype for name, tensor in inputs.items()},
    }

    def read(answer: Mapping[str, Any]) -> Network:
        if "error" in answer:
            raise UsageError(f"{network}: {' '.join(str(answer['error']).split())}")
        return Network(answer["version"], _distinct(answer["calls"]), answer["left_out"])

    return ask_build(build, framework, [script, json.dumps(question)], TIMEOUT_S, f"could not read {network}", read)


def _distinct(calls: Sequence[Mapping[str, Any]]) -> list[Call]:
    distinct: dict[str, Call] = {}
    for call in calls:
        key = json.dumps([call["functions"], call["inputs"]], sort_keys=True)
        times = distinct[key].times + 1 if key in distinct else 1
        distinct[key] = Call(call["functions"], call["inputs"], times)
    return list(distinct.values())


def operator_tests(network: Network, name: str, rules: Rules) -> list[dict[str, Any]]:
    """Return the network's operator calls as a spec's tests; those whose rules name a backward are measured backward,
    too. Raise UsageError if there are no calls."""
    if not network.calls:
        raise UsageError(f"{name}: none of its operators can be measured: {_listed(network.left_out)}")
    identifiers: set[str] = set()
    return [
        {
            "identifier": _identifier(call, identifiers),
            "operator": call.functions[0],
            **({"run_backward": True} if has_backward(call.functions, rules) else {}),
            "inputs": [_short(call.inputs)],
        }
        for call in network.calls
    ]


def network_test(text: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec's test of the network itself: ``text`` as ``network_source`` takes it, ``inputs`` as a spec has
    them.

    The files are those on this machine, with their checksums; of parameters beside a symbol the latest are taken.
    UsageError: as ``network_source``, and a file that can't be read.
    """
    source = network_source(text)
    name = re.sub(r"\W+", "_", source.name, flags=re.ASCII).strip("_")[:60] or "network"
    name = name if name[0].isalpha() else f"network_{name}"
    if source.module:
        operator, files = f"block.{source.name}", {"module": source.module}
    elif source.symbol:
        saved = sorted(source.symbol.parent.glob(f"{glob.escape(source.name)}-[0-9][0-9][0-9][0-9].params"))
        operator, files = f"saved.{name}", {"symbol": source.symbol, **({"params": saved[-1]} if saved else {})}
    else:
        operator, files = f"model_zoo.{name}", {}
    test: dict[str, Any] = {"identifier": name, "operator": operator, "inputs": [dict(inputs)]}
    if files:
        test["files"] = {key: {"location": str(path), "sha256": _sha256(path)} for key, path in files.items()}
    return test


def _sha256(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}): check the path and its permissions") from None


def network_spec(
    network: Network,
    name: str,
    inputs: Mapping[str, Input],
    tests: Sequence[Mapping[str, Any]],
    framework: str,
    schema: str | None = None,
) -> str:
    """Return the text of a spec with ``tests``, which are those of the network's calls, and perhaps of itself."""
    input_words = ", ".join(
        f"{input_name} {_joined(tensor.shape)} {tensor.dtype}" for input_name, tensor in inputs.items()
    )
    times = sum(call.times for call in network.calls)
    left_out = f" Left out: {_listed(network.left_out)}." if network.left_out else ""
    head = {
        **({"$schema": schema} if schema else {}),
        "framework": framework,
        "description": f"The operator calls of {name} ({input_words}), as {framework} {network.version} infers them: "
        f"{times} calls, {len(network.calls)} of them distinct; the end of each name says how often it is made."
        f"{left_out}",
    }
    return spec_text(head, tests)


def has_backward(functions: Sequence[str], rules: Rules) -> bool:
    """Tell whether the rules give an operator backward cases, by any of its names; False where they don't have it."""
    for function in functions:
        own = rules.operators.get(function)
        if own is not None and own.backward is not None:
            return own.backward
    return any(
        category.backward
        for category in rules.categories.values()
        if any(fnmatch.fnmatchcase(function, listed) for function in functions for listed in category.operators)
    )


def _identifier(call: Call, taken_identifiers: set[str]) -> str:
    """Return ``convolution_1x3x224x224_64x3x7x7_times2``: operator, its first two shapes, a number if needed, count."""
    stem = call.functions[0].rpartition(".")[2].lower().strip("_")
    shapes = [_joined(tensor["shape"]) for tensor in _tensors(call.inputs)][:2]
    while len("_".join([stem, *shapes])) > MAX_IDENTIFIER - 12:
        shapes.pop()
    base = "_".join([stem, *shapes])
    number = next(number for number in itertools.count(1) if f"{base}{number}" not in taken_identifiers)
    taken_identifiers.add(f"{base}{number}")
    return f"{base}{f'-{number}' if number > 1 else ''}_times{call.times}"


def _tensors(inputs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    values = [item for value in inputs.values() for item in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, dict) and "shape" in value]


def _short(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with tensors of the usual kind as their shapes alone."""

    def short(value: Any) -> Any:
        if not isinstance(value, dict) or "shape" not in value:
            return value
        fields = {key: field for key, field in value.items() if (key, field) != ("dtype", "float32")}
        return value["shape"] if set(fields) == {"shape"} else fields

    return {name: [short(item) for item in value] if name == "args" else short(value) for name, value in inputs.items()}


def _joined(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _listed(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{operator} ({why})" for operator, why in left_out.items()) or "it has none"
