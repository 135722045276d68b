"""Ask a build for its operators, by one subprocess in the build's own interpreter."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from opduel.driver.builds.process import Outcome, run
from opduel.frameworks import Framework, worker_environment
from opduel.records import Build, RunError, UsageError

TIMEOUT_S = 180.0  # the import takes 1 to 4 s; a cold disk or an emulated CPU much longer

_Answer = TypeVar("_Answer")
Kind = Literal["tensor", "tensors", "positional", "required", "optional"]


@dataclass(frozen=True)
class Function:
    """A function that a spec can name."""

    name: str  # as in a spec: "nd.linalg.gemm2"
    registered: str | None  # the operator that it calls, by its own name; None if unknown
    arguments: Mapping[str, Kind]  # in order; "tensors" are a variadic operator's, "positional" have no name
    hybrid: bool | None = None  # of a block: whether it can be compiled to a graph; None: no block
    takes_dtype: bool = False  # whether it has an argument "dtype", be it one that it only hands on
    kind: str = "function"  # or "ufunc", "class", "method"
    dtypes: Sequence[str] | None = None  # of its inputs, all alike; None: not known


@dataclass(frozen=True)
class Registry:
    """All operators of a build."""

    version: str
    registered: Mapping[str, Sequence[str]]  # an operator's own name -> every name of it, aliases included
    functions: Mapping[str, Function]  # by name


def ask_registry(build: Build, framework: Framework, namespaces: Sequence[str] = ()) -> Registry:
    """Ask ``build`` for its operators, or, of a framework of any package, for those in ``namespaces``. UsageError: the
    framework has no registry that could be asked; RunError: the build's answer is missing or not understood."""
    script = framework.scripts.registry
    if script is None:
        raise UsageError(f"{framework.name} has no operator registry: write its specs by hand")

    def read(answer: Mapping[str, Any]) -> Registry:
        functions = {
            name: Function(
                name,
                arguments=dict(entry.pop("arguments")),  # it may come as pairs
                takes_dtype=entry.pop("dtype", False),
                **entry,
            )
            for name, entry in answer["functions"].items()
        }
        return Registry(answer["version"], answer["registered"], functions)

    return ask_build(build, framework, [script, *namespaces], TIMEOUT_S, "can't list its operators", read)


def ask_build(
    build: Build,
    framework: Framework,
    script: Sequence[str | Path],
    timeout_s: float,
    failure: str,
    read: Callable[[Mapping[str, Any]], _Answer],
) -> _Answer:
    """Run a script with its arguments in the build's interpreter, and return what ``read`` makes of the JSON that it
    prints. Raise RunError if the answer is missing (``failure`` in words) or not understood."""
    environment = {**worker_environment(), **framework.environment(1), **build.environment}
    outcome = run([build.interpreter, *script], timeout=timeout_s, whole_environment=environment)
    return read_answer(build, outcome, failure, read)


def read_answer(build: Build, outcome: Outcome, failure: str, read: Callable[[Mapping[str, Any]], _Answer]) -> _Answer:
    """Return what ``read`` makes of the JSON that a program of ``build`` printed. Raise RunError as ``ask_build``."""
    if not outcome.ok:
        raise RunError(f"{build.requested}: {failure}: {outcome.output_tail}")
    try:
        return read(json.loads(outcome.stdout))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunError(f"{build.requested}: its answer is not understood ({error})") from None
