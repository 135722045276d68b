"""From a spec to cases: settings resolved from the nearest level, names made, uniqueness checked."""

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import ValidationError

from opduel.frameworks import get_framework
from opduel.frameworks.roles import ArrayCases, Cases
from opduel.harness.specs.draw import draws, filled
from opduel.harness.specs.fields import DTYPE_FIX, PLACEHOLDERS, numpy_name
from opduel.harness.specs.model import CaseSettings, Inputs, Settings, Spec, Test
from opduel.harness.specs.naming import call_name
from opduel.harness.specs.programs import FORMATS, PROGRAM_METRICS, ProgramTest
from opduel.harness.specs.values import Tensor
from opduel.records import (
    DEFAULT_METRIC,
    DEFAULT_MODE,
    METRICS,
    VALUE,
    Case,
    Direction,
    Tolerance,
    UsageError,
    case_id_for,
)
from opduel.records.case import DTYPES, Mode
from opduel.support.text import nearest
from opduel.support.validation import explain

DEFAULT_CONTEXT = "cpu"
DEFAULT_TIMEOUT_S = 60.0
MAX_NAME = 200  # with placeholders filled in: file systems end at 255
# What the command line may put in place of a spec's settings, and what no program has, and no function without passes.
_NOT_OF_PROGRAMS = {"dtype": "--dtype", "context": "--ctx", "directions": "--directions"}
_OF_PASSES = ("context", "directions", "run_backward", "mode")


def expand_cases(
    spec: Spec,
    *,
    thresholds: Mapping[str, float] | None = None,
    metrics: Sequence[str] = (),
    settings: Settings | None = None,
    seed: int = 0,
) -> list[Case]:
    """Return all cases of a spec, in the file's order; those that differ in nothing but the metric stand together.

    ``thresholds`` (metric -> share) hold where the spec doesn't say one. ``metrics``, if there are any, and
    ``settings`` override what the spec says, but for tensors with a dtype of their own; cases that are the same but for
    what they override become one. ``seed`` is what sizes are drawn from where the spec has none of its own. Raises
    UsageError: two cases have the same id, an identifier asks for what there isn't, or sizes were drawn that make no
    valid input.
    """
    cases: dict[str, Case] = {}
    origins: dict[str, str] = {}
    expansion = _Expansion(spec, thresholds or {}, metrics, settings or Settings(), seed)
    for origin, case in expansion.cases():
        if case.id in cases and (settings is None or case != cases[case.id]):
            raise _not_unique(case.id, origins[case.id], origin)
        cases[case.id], origins[case.id] = case, origin
    return list(cases.values())


def select_cases(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Return those cases whose id or operator is one of the patterns; a pattern that is none's is matched with ids.
    UsageError: a pattern matches none."""
    chosen: set[str] = set()
    for pattern in patterns:
        selected = {case.id for case in cases if pattern in (case.id, case.operator)}
        selected = selected or {case.id for case in cases if _matches(case, pattern)}
        if not selected:
            operators = list(dict.fromkeys(case.operator for case in cases))
            raise UsageError(f"no case matches {pattern!r}: {nearest(pattern, operators)}")
        chosen |= selected
    return [case for case in cases if case.id in chosen]


def _matches(case: Case, pattern: str) -> bool:
    """Tell whether ``pattern`` is for this case: with ``*?[`` a glob over the whole id or the operator's whole name,
    without these a part of the id."""
    if re.search(r"[*?[]", pattern):
        return fnmatch.fnmatchcase(case.id, pattern) or fnmatch.fnmatchcase(case.operator, pattern)
    return pattern in case.id


@dataclass(frozen=True)
class _Expansion:
    """A spec, and what ``expand_cases`` is given beside it."""

    spec: Spec
    thresholds: Mapping[str, float]
    metrics: Sequence[str]
    overriding: Settings
    seed: int

    def cases(self) -> Iterator[tuple[str, Case]]:
        """Yield all cases, with the places in the spec that they are from."""
        for number, test in enumerate(self.spec.tests):
            if isinstance(test, ProgramTest):
                origin = f"tests[{number}]"
                yield from ((origin, case) for case in self._cases_of_program(test, origin))
                continue
            for index, (where, template) in enumerate(test.each_input()):
                origin = f"tests[{number}].{where}"
                levels = (self.overriding, template.case or CaseSettings(), test, self.spec.defaults)
                for inputs, drawn in self._drawn(levels[1:], test, template, index, origin):
                    yield from ((origin, case) for case in self._cases_of(levels, test, inputs, index, drawn, origin))

    def _cases_of_program(self, test: ProgramTest, origin: str) -> Iterator[Case]:
        for name, option in _NOT_OF_PROGRAMS.items():
            if getattr(self.overriding, name) is not None:
                raise UsageError(f"{option}: a program has none: leave it out")
        if test.stdin is not None and not Path(test.stdin).is_file():
            raise UsageError(f"{origin}.stdin: {test.stdin} is not a file: give a path relative to the spec's folder")
        usual = VALUE if test.parse else DEFAULT_METRIC
        levels = (test, self.spec.defaults)
        for metric in self.metrics or _nearest(levels, "metric", [usual]):
            if metric not in PROGRAM_METRICS:
                raise UsageError(f"{origin}: the metric {metric} isn't for programs: use {', '.join(PROGRAM_METRICS)}")
            if metric == VALUE and test.parse is None:
                fix = f"add one of {', '.join(FORMATS)}"
                raise UsageError(f"{origin}: has no parse, which the metric value needs: {fix}")
            names = dict.fromkeys(("direction", "dtype", "context", "mode"), "")
            yield self._case(test, levels, metric, test.operator, inputs=test.inputs(), **names)

    def _case(
        self,
        test: Test | ProgramTest,
        levels: Sequence[Settings | ProgramTest],
        metric: str,
        time_id: str,
        **fields: Any,
    ) -> Case:
        return Case(
            id=case_id_for(metric, time_id),
            operator=test.operator,
            threshold=self._threshold(metric, levels),
            timeout_s=_nearest(levels, "timeout", DEFAULT_TIMEOUT_S),
            metric=metric,
            files={name: file.record() for name, file in (test.files or {}).items()},
            category=test.category,
            **fields,
        )

    def _drawn(
        self, levels: Sequence[Settings], test: Test, template: Inputs, index: int, origin: str
    ) -> Iterator[tuple[Inputs, dict[str, int]]]:
        """Yield the inputs that a template stands for, each with the sizes drawn for it; itself if none are drawn."""
        if not test.random:
            yield template, {}
            return
        count = test.count or 1
        key = json.dumps([_nearest(levels, "seed", self.seed), test.operator, test.identifier, index])
        yielded = 0
        for sizes in draws(test.random, count, key):
            yielded += 1
            plain = filled(template.model_dump(exclude={"case"}, exclude_unset=True), sizes)
            try:
                inputs = Inputs.model_validate(plain).model_copy(update={"case": template.case})
            except ValidationError as error:
                drawn_sizes = ", ".join(f"{name} {size}" for name, size in sizes.items())
                raise UsageError(f"{origin}, with {drawn_sizes}: {explain(error, 'the spec')}") from None
            yield inputs, sizes
        if yielded < count:
            words = f"there are only {yielded} different draws, but count is {count}"
            raise UsageError(f"{origin}: {words}: widen the ranges or reduce count")

    def _cases_of(
        self,
        levels: Sequence[Settings],
        test: Test,
        inputs: Inputs,
        index: int,
        drawn: Mapping[str, int],
        origin: str,
    ) -> Iterator[Case]:
        kind, plain = get_framework(self.spec.framework).cases, test.plain_inputs(inputs)
        ways = self._ways(kind, levels, test, origin)
        dtype = self._dtype(kind, levels, plain, origin)
        context = _nearest(levels, "context", DEFAULT_CONTEXT) if kind.has_passes else ""
        written = _nearest(levels, "tolerance", None)
        tolerance = Tolerance() if written is None else Tolerance(written.rtol, written.atol)
        template = (inputs.case and inputs.case.identifier) or test.identifier
        if template is None and not isinstance(kind, ArrayCases):
            name = test.operator.rpartition(".")[2].lower().strip("_")
            template = name if drawn and not isinstance(test.inputs, list) else name + "_{ID}"
        if template is not None and drawn and "{DRAWN}" not in template:
            template += "_{DRAWN}"
        for mode, direction in ways:
            fields = {
                "ID": str(index),
                "OPERATOR": test.operator,
                "DTYPE": dtype,
                "CONTEXT": context.replace("(", "").replace(")", ""),  # gpu(0) as gpu0
                "DIRECTION": direction,
                "DRAWN": "_".join(f"{name}{size}" for name, size in drawn.items()),
                "SHAPE": _first_shape(inputs) if template and "{SHAPE}" in template else "",
            }
            if template is None:
                time_id = call_name(test.operator, plain, dtype)
            else:
                time_id = _case_id(template, fields, mode, kind, origin)
            if len(time_id.partition("/")[0]) > MAX_NAME:
                raise UsageError(f"{origin} gets a name of more than {MAX_NAME} characters: use a shorter identifier")
            how = {"direction": direction, "dtype": dtype, "context": context, "mode": mode, "tolerance": tolerance}
            sets = _nearest(levels, "input_sets", 1)
            for metric in self.metrics or _nearest(levels, "metric", [DEFAULT_METRIC]):
                yield self._case(test, levels, metric, time_id, inputs=plain, input_sets=sets, **how)

    def _ways(
        self, kind: Cases, levels: Sequence[Settings], test: Test, origin: str
    ) -> list[tuple[Mode | Literal[""], Direction | Literal[""]]]:
        """Return each mode and direction of an input; empty ones where the framework has none. UsageError: it has
        none, and the spec or the command line says one."""
        if not kind.has_passes:
            for name in _OF_PASSES:
                if getattr(self.overriding, name) is not None:
                    raise UsageError(f"{_NOT_OF_PROGRAMS.get(name, name)}: {test.operator} has none: leave it out")
                if _nearest(levels, name, None) is not None:
                    raise UsageError(f"{origin} has {name}, which is not for {test.operator}: leave it out")
            return [("", "")]
        modes = _nearest(levels, "mode", [DEFAULT_MODE])
        for mode in modes:
            if mode != DEFAULT_MODE and not kind.can_be_hybridized(test.operator):
                raise UsageError(f"{origin} has the mode {mode}, which {test.operator} doesn't support: remove it")
        return list(product(modes, _directions(levels)))

    def _dtype(self, kind: Cases, levels: Sequence[Settings], plain: Mapping[str, Any], origin: str) -> str:
        """Return the dtype of arrays without one of their own; of NumPy's empty where there are none. UsageError: the
        input or its test says one where there are none, or the command line one that there isn't."""
        written = self.overriding.dtype
        if not isinstance(kind, ArrayCases):
            if written is not None and written not in DTYPES:
                raise UsageError(f"--dtype {written}: {DTYPE_FIX}")
            return str(_nearest(levels, "dtype", kind.usual_dtype))
        try:
            dtype = numpy_name(_nearest(levels, "dtype", kind.usual_dtype))
        except ValueError as error:
            raise UsageError(f"--dtype {error}") from None
        if any(map(_takes_dtype, plain.values())):
            return dtype
        if written is None and (own := _nearest(levels[1:-1], "dtype", None)):
            raise UsageError(f"{origin} has the dtype {own}, and no array that would get it: leave it out")
        return ""

    def _threshold(self, metric: str, levels: Sequence[Settings | ProgramTest]) -> float:
        """Return the spec's share, the command line's, or the metric's own; what isn't sampled has tolerances."""
        usual = METRICS[metric].threshold
        if not METRICS[metric].sampled:
            return usual
        share: float = _nearest(levels, "threshold", self.thresholds.get(metric, usual))
        return share


def _nearest(levels: Sequence[Settings | ProgramTest], name: str, usual: Any) -> Any:
    for level in levels:  # a generator takes twice the time, and a large spec asks a hundred thousand times
        value = getattr(level, name)
        if value is not None:
            return value
    return usual


def _directions(levels: Sequence[Settings]) -> tuple[Direction, ...]:
    for level in levels:
        if level.directions is not None:
            return cast(tuple[Direction, ...], tuple(level.directions))
        if level.run_backward is not None:
            return ("forward", "backward") if level.run_backward else ("forward",)
    return ("forward",)


def _case_id(template: str, fields: Mapping[str, str], mode: str, kind: Cases, origin: str) -> str:
    """Return ``identifier[/dtype][/context][/mode][/direction]``: what is usual, or in the identifier, is left out.
    UsageError: the identifier asks for what the case doesn't have."""
    for name in PLACEHOLDERS:
        if f"{{{name}}}" in template and not fields[name]:
            has = "draws nothing" if name == "DRAWN" else f"has no {name.lower()}"
            raise UsageError(f"{origin} {has} for {{{name}}} in the identifier: use another placeholder")
    parts = [re.sub(r"\{([A-Z]+)\}", lambda match: fields[match[1]], template)]
    for name, usual in (("DTYPE", kind.usual_dtype), ("CONTEXT", DEFAULT_CONTEXT)):
        if fields[name] != usual and f"{{{name}}}" not in template:
            parts.append(fields[name])
    parts.append("" if mode == DEFAULT_MODE else mode)
    return "/".join(filter(None, [*parts, fields["DIRECTION"]]))


def _takes_dtype(value: Any) -> bool:
    """Tell whether an argument is, or holds, an array without a dtype of its own."""
    if isinstance(value, list):
        return all(isinstance(size, int) for size in value) or any(map(_takes_dtype, value))
    if not isinstance(value, Mapping) or "value" in value:
        return False
    if "shape" in value:
        return "dtype" not in value
    inner = (value.get("args") or (), value.get("tuple") or (), (value.get("kwargs") or {}).values())
    return any(map(_takes_dtype, chain.from_iterable(inner)))


def _first_shape(inputs: Inputs) -> str:
    """Return the first tensor's shape as ``1x3x64x64``; empty if there is none."""
    for value in [*(inputs.args or []), *(inputs.__pydantic_extra__ or {}).values()]:
        for item in value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]:
            shape = item.shape if isinstance(item, Tensor) else item
            if isinstance(shape, list):
                return "x".join(str(size) for size in shape) or "scalar"
    return ""


def _not_unique(case_id: str, first: str, second: str) -> UsageError:
    test = first.partition(".")[0]
    same = test == second.partition(".")[0]
    fix = f"add {{ID}} to the identifier of {test}" if same else "give their tests different identifiers"
    if case_id.partition("/")[0].endswith(")"):  # a name made of the inputs
        fix = "leave one out, or give one an identifier"
    return UsageError(f"{second} and {first} have the same id, {case_id}: {fix}")
