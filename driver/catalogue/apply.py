"""Make a spec's tests, as plain data, from rules and a registry."""

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, get_args

from opduel.driver.catalogue.registry import Function, Registry
from opduel.driver.catalogue.rules import Category, FunctionKind, Operator, Rules
from opduel.records import MODES, UsageError

SIZES = ("small", "large", "skewed")
KINDS = get_args(FunctionKind)
ALWAYS_TAKEN = ("args", "out", "backend")  # beside a function's own arguments

Test = dict[str, Any]


@dataclass(frozen=True)
class Catalogue:
    """The tests of a build's operators."""

    tests: Mapping[str, Sequence[Test]]  # by category
    left_out: Mapping[str, str]  # function or registered operator -> why it is in no category


def apply_rules(rules: Rules, registry: Registry) -> Catalogue:
    """Return the tests of every category, and the operators that are in none.

    A function that the build lacks is left out; so is one with an argument that no rule covers. UsageError: a rule
    names an argument that its operator doesn't have.
    """
    tests: dict[str, list[Test]] = {}
    left_out: dict[str, str] = {}
    tested: set[str] = set()
    for name, category in rules.categories.items():
        tests[name] = []
        for function in _functions_of(category, rules, registry, left_out):
            try:
                tests[name].append(_test(function, category, rules))
                tested.add(function.name)
            except LookupError as error:
                left_out[function.name] = f"no rule for its argument {error.args[0]}"
    left_out.update(_uncovered(tested, rules, registry, left_out))
    return Catalogue({name: category_tests for name, category_tests in tests.items() if category_tests}, left_out)


def _why(name: str, reasons: Mapping[str, str]) -> str | None:
    """Return the rules' reason why ``name`` has no case, or None."""
    return next((why for pattern, why in reasons.items() if fnmatch.fnmatchcase(name, pattern)), None)


def _functions_of(category: Category, rules: Rules, registry: Registry, left_out: dict[str, str]) -> Iterator[Function]:
    """Yield a category's functions in the order of its list; of an operator's several names a pattern takes one."""
    named = [listed_name for listed_name in category.operators if not _is_pattern(listed_name)]
    identities = {_identity(registry.functions[name]) for name in named if name in registry.functions}
    for listed in category.operators:
        if not _is_pattern(listed):
            reason = _why(listed, rules.cannot)
            if reason or listed not in registry.functions:
                left_out[listed] = reason or "this build has no such operator"
            else:
                yield registry.functions[listed]
            continue
        matching = sorted(fnmatch.filter(registry.functions, listed))
        for name in sorted(matching, key=lambda name: registry.functions[name].registered != name):  # own names first
            function = registry.functions[name]
            if name in named or _identity(function) in identities or function.kind not in (category.kinds or KINDS):
                continue
            if any(fnmatch.fnmatchcase(name, glob) for glob in category.but):
                continue
            identities.add(_identity(function))
            if why := _why(name, rules.cannot):
                left_out[name] = why
            else:
                yield function


def _is_pattern(text: str) -> bool:
    return re.search(r"[*?[]", text) is not None


def _identity(function: Function) -> tuple[str, str]:
    """Return what aliases have in common: the namespace's root and the operator."""
    return function.name.partition(".")[0], function.registered or function.name


def _test(function: Function, category: Category, rules: Rules) -> Test:
    """Return one test with all of an operator's inputs. LookupError: with the name of an argument that has no rule;
    UsageError: a rule for an argument that isn't one."""
    own = _rule(function, rules)
    stem = category.prefix + _readable(function.name)
    inputs = []
    for case, settings_of_case in (own.cases or {"": {}}).items():
        values = {name: value for name, value in settings_of_case.items() if name != "case"}
        for argument in [*own.inputs, *values]:
            if argument not in function.arguments and argument not in ALWAYS_TAKEN:
                names = ", ".join(function.arguments)
                raise UsageError(f"operators.{function.name}: {argument} is no argument: use one of {names}")
        general = {**rules.arguments, **category.arguments}
        inputs_by_name = _inputs(function, [values, own.inputs, category.inputs], general)
        available, allowed = _sizes(inputs_by_name), own.sizes or category.sizes
        sizes = [size for size in available if size in allowed] or available or [""]
        dtypes = _dtypes(function, category.dtypes if own.dtypes is None else own.dtypes, inputs_by_name)
        for size, dtype in [*product(sizes, dtypes[:1]), *product(sizes[-1:], dtypes[1:])]:
            name = {"identifier": "_".join(part for part in (stem, case, size) if part)}
            usual = {**name, "dtype": dtype} if dtype else name
            inputs.append({**_pick(inputs_by_name, size), "case": {**usual, **settings_of_case.get("case", {})}})
    backward = category.backward if own.backward is None else own.backward
    hybrid = function.hybrid if own.hybrid is None else own.hybrid
    sets = next((n for glob, n in rules.input_sets.items() if fnmatch.fnmatchcase(function.name, glob)), 1)
    settings = {
        **({"input_sets": sets} if sets > 1 else {}),
        **({"run_backward": True} if backward else {}),
        **({"mode": list(MODES)} if hybrid else {}),
    }
    return {"operator": function.name, **settings, "inputs": inputs}


def _rule(function: Function, rules: Rules) -> Operator:
    """Return the rule of a function's name, or of the first matching glob, reduced to the function's arguments."""
    if function.name in rules.operators:
        return rules.operators[function.name]
    own = next(
        (operator for glob, operator in rules.operators.items() if fnmatch.fnmatchcase(function.name, glob)), Operator()
    )
    inputs = {name: value for name, value in own.inputs.items() if name in (*function.arguments, *ALWAYS_TAKEN)}
    return own.model_copy(update={"inputs": inputs})


def _dtypes(function: Function, dtypes: Sequence[str], inputs: Mapping[str, Any]) -> Sequence[str]:
    """Return those of ``dtypes`` that the function takes, if an input is an array without a dtype; else [""]."""
    accepted = [dtype for dtype in dtypes if function.dtypes is None or dtype in function.dtypes]
    return accepted if accepted and any(map(_is_free, inputs.values())) else [""]


def _is_free(value: Any) -> bool:
    """Tell whether an input is, or holds, an array that takes the case's dtype."""
    if isinstance(value, list):
        return all(isinstance(item, int) for item in value) or any(map(_is_free, value))
    if not isinstance(value, dict) or "value" in value:
        return False
    if "shape" in value:
        return "dtype" not in value
    if "call" in value:
        return any(map(_is_free, [*value.get("args", ()), *value.get("kwargs", {}).values()]))
    return any(map(_is_free, value.values()))


def _readable(name: str) -> str:
    """Return ``internal.power`` for ``nd._internal._power``, ``NDArray.iadd`` for ``nd.NDArray.__iadd__``."""
    plain = name.removeprefix("nd.").replace("_internal._", "internal.")
    return re.sub(r"\.__([a-z]+)__$", r".\1", plain)


def _inputs(function: Function, levels: Sequence[Mapping[str, Any]], general: Mapping[str, Any]) -> dict[str, Any]:
    """Return argument -> value from the nearest level that has it; ``general`` for tensors and required ones."""
    values: dict[str, Any] = {}
    positional: list[Any] = []  # of arguments that have no name
    args_level = _level(levels, "args")
    by_place = args_level is not None and args_level["args"] is not None  # so that what is required may be among them
    variadic = next((name for name, kind in function.arguments.items() if kind == "tensors"), None)
    for name, kind in function.arguments.items():
        if kind == "tensors" or (kind in ("required", "positional") and by_place and not _level(levels, name)):
            continue
        level = _level(levels, name)
        if level is None and kind in ("tensor", "required", "positional"):
            level = general
            if name not in general and not (kind == "required" and variadic and name.startswith("num_")):
                raise LookupError(name)
        if level is not None and name in level:
            if kind == "positional" and level[name] is not None:
                positional.append(_as_positional(level[name]))
            else:
                values[name] = level[name]
    for name in ALWAYS_TAKEN:
        level = _level(levels, name)
        if level is not None:
            values[name] = level[name]
    if by_place and isinstance(values["args"], list):
        values["args"] = [_as_positional(item) for item in values["args"]]
    if positional and not by_place:
        values["args"] = positional
    if variadic and "args" not in values:
        raise LookupError(variadic)
    return {name: value for name, value in values.items() if value is not None}


def _as_positional(value: Any) -> Any:
    """Return a value in the form of a spec's ``args``, which take no plain values and no lists but shapes."""
    if isinstance(value, list) and not all(isinstance(item, int) for item in value):
        return {"call": "builtins.list", "args": [value]}
    return value if isinstance(value, dict | list) else {"value": value}


def _level(levels: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the nearest level that has an argument."""
    return next((level for level in levels if name in level), None)


def _by_size(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and set(value) <= set(SIZES)


def _sizes(value: Any) -> list[str]:
    """Return the sizes in ``value``, at any depth, in the usual order."""
    sizes: set[str] = set(value) if _by_size(value) else set()
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        sizes.update(_sizes(item))
    return [size for size in SIZES if size in sizes]


def _pick(value: Any, size: str) -> Any:
    """Return ``value`` with ``size`` chosen throughout; where it lacks that size, with its last one."""
    if _by_size(value):
        return value.get(size, list(value.values())[-1])
    if isinstance(value, dict):
        return {name: _pick(item, size) for name, item in value.items()}
    return [_pick(item, size) for item in value] if isinstance(value, list) else value


def _uncovered(tested: set[str], rules: Rules, registry: Registry, reasons: Mapping[str, str]) -> dict[str, str]:
    """Return, with reasons, the registered operators without a test, and public functions of none of those."""
    covered = {registry.functions[name].registered for name in tested} - {None}
    reason_by_operator = {
        registry.functions[name].registered: why for name, why in reasons.items() if name in registry.functions
    }
    functions = [
        name
        for name, function in registry.functions.items()
        if function.registered not in covered and not name.rpartition(".")[2].startswith("_")
    ]
    return {
        own: _why(own, rules.cannot)
        or reason_by_operator.get(own)
        or reasons.get(own)
        or _why(own, rules.unlisted)
        or "no rule yet"
        for own in [*registry.registered, *functions]
        if own not in covered and own not in tested
    }
