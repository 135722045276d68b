"""From a spec to cases: settings resolved from the nearest level, names made, uniqueness checked."""

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import product
from typing import Any, cast

from pydantic import ValidationError

from opduel.frameworks import get_framework
from opduel.harness.specs.draw import draws, filled
from opduel.harness.specs.model import CaseSettings, Inputs, Settings, Spec, Test
from opduel.harness.specs.programs import ProgramTest, program_cases
from opduel.harness.specs.two_sided import with_sides
from opduel.harness.specs.values import Tensor
from opduel.records import DEFAULT_METRIC, DEFAULT_MODE, METRICS, Case, Direction, Tolerance, UsageError, case_id_for
from opduel.support.validation import explain

DEFAULT_DTYPE = "float32"
DEFAULT_CONTEXT = "cpu"
DEFAULT_TIMEOUT_S = 60.0
MAX_NAME = 200  # with placeholders filled in: file systems end at 255


def expand_cases(
    spec: Spec,
    *,
    thresholds: Mapping[str, float] | None = None,
    metrics: Sequence[str] = (),
    settings: Settings | None = None,
    seed: int = 0,
) -> list[Case]:
    """All cases of a spec, in the file's order; those that differ in nothing but the metric stand together.

    ``thresholds`` (metric -> share) hold where the spec doesn't say one. ``metrics``, if there are any, are measured in
    place of what the spec says. ``settings`` override all that the spec says, but for tensors that state a dtype of
    their own; cases that are the same but for what they override become one. ``seed`` is what sizes are drawn from
    where the spec has no seed of its own.

    Raises:
        UsageError: two cases have the same id, an identifier asks for a shape where there is none, or sizes were
            drawn that make no valid input.
    """
    cases: dict[str, Case] = {}
    origins: dict[str, str] = {}
    can_be_hybridized = get_framework(spec.framework).cases.can_be_hybridized

    def keep(case: Case, origin: str) -> None:
        if case.id in cases and not (settings is not None and case == cases[case.id]):
            raise _not_unique(case.id, origins[case.id], origin)
        cases[case.id] = case
        origins[case.id] = origin

    for number, test in enumerate(spec.tests):
        if isinstance(test, ProgramTest):
            origin = f"tests[{number}]"
            for case in program_cases(test, origin, spec.defaults, settings, thresholds or {}, metrics):
                keep(case, origin)
            continue
        for index, (where, template) in enumerate(test.each_input()):
            origin = f"tests[{number}].{where}"
            levels = (settings or Settings(), template.case or CaseSettings(), test, spec.defaults)
            for inputs, drawn in _drawn(levels[1:], test, template, index, origin, seed):
                for case in _cases_of(levels, test, inputs, index, drawn, origin, thresholds or {}, metrics):
                    if case.mode != DEFAULT_MODE and not can_be_hybridized(case.operator):
                        words = f"has the mode {case.mode}, which {case.operator} doesn't support: remove it"
                        raise UsageError(f"{origin} {words}")
                    keep(case, origin)
    return list(cases.values())


def select_cases(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """Those cases that match any pattern, by id or by operator.

    Raises:
        UsageError: a pattern matches none.
    """
    chosen: set[str] = set()
    for pattern in patterns:
        selected = {case.id for case in cases if matches(case, pattern)}
        if not selected:
            raise UsageError(f"no case matches {pattern!r}: {_nearby(cases, pattern)}")
        chosen |= selected
    return [case for case in cases if case.id in chosen]


def matches(case: Case, pattern: str) -> bool:
    """Whether ``pattern``, with ``*?[`` a glob over the whole id or the operator's whole name, without these a part of
    the id or the operator's whole name, is for this case."""
    if re.search(r"[*?[]", pattern):
        return fnmatch.fnmatchcase(case.id, pattern) or fnmatch.fnmatchcase(case.operator, pattern)
    return pattern in case.id or pattern == case.operator


def _nearby(cases: Sequence[Case], pattern: str) -> str:
    """What there is: operators of a similar name, and the first case."""
    close = get_close_matches(pattern, dict.fromkeys(case.operator for case in cases), 3)
    guess = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{guess}the first of {len(cases)} is {cases[0].id}"


def _drawn(
    levels: Sequence[Settings], test: Test, template: Inputs, index: int, origin: str, seed: int
) -> Iterator[tuple[Inputs, dict[str, int]]]:
    """The inputs that one template stands for, each with the sizes drawn for it; itself where nothing is drawn."""
    if not test.random:
        yield template, {}
        return
    count = test.count or 1
    own = _nearest(levels, "seed")
    key = json.dumps([seed if own is None else own, test.operator, test.identifier, index])
    yielded = 0
    for sizes in draws(test.random, count, key):
        yielded += 1
        plain = filled(_plain(template), sizes)
        try:
            inputs = Inputs.model_validate(plain).model_copy(update={"case": template.case})
        except ValidationError as error:
            drawn_sizes = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise UsageError(f"{origin}, with {drawn_sizes}: {explain(error, 'the spec')}") from None
        yield inputs, sizes
    if yielded < count:
        raise UsageError(
            f"{origin}: there are only {yielded} different draws, but count is {count}: "
            "widen the ranges or reduce count"
        )


def _cases_of(
    levels: Sequence[Settings],
    test: Test,
    inputs: Inputs,
    index: int,
    drawn: Mapping[str, int],
    origin: str,
    thresholds: Mapping[str, float],
    metrics: Sequence[str],
) -> Iterator[Case]:
    """The cases of one input: one for each mode, direction and metric."""
    dtype = _nearest(levels, "dtype") or DEFAULT_DTYPE
    context = _nearest(levels, "context") or DEFAULT_CONTEXT
    metrics = metrics or _nearest(levels, "metric") or [DEFAULT_METRIC]
    share, timeout = _nearest(levels, "threshold"), _nearest(levels, "timeout")
    tolerance = _nearest(levels, "tolerance")
    template = (inputs.case and inputs.case.identifier) or test.identifier or _usual_identifier(test, drawn)
    if drawn and "{DRAWN}" not in template:
        template += "_{DRAWN}"
    modes = _nearest(levels, "mode") or [DEFAULT_MODE]
    for mode, direction in product(modes, _directions(levels)):
        fields = {
            "ID": str(index),
            "OPERATOR": test.operator,
            "DTYPE": dtype,
            "CONTEXT": context.replace("(", "").replace(")", ""),  # gpu(0) as gpu0
            "DIRECTION": direction,
            "DRAWN": "_".join(f"{name}{size}" for name, size in drawn.items()),
        }
        if "{DRAWN}" in template and not drawn:
            raise UsageError(f"{origin} draws nothing for {{DRAWN}} in the identifier: use another placeholder")
        if "{SHAPE}" in template:
            fields["SHAPE"] = _first_shape(inputs, origin)
        time_id = _case_id(template, fields, mode)
        if len(time_id.partition("/")[0]) > MAX_NAME:
            raise UsageError(f"{origin} gets a name of more than {MAX_NAME} characters: use a shorter identifier")
        for metric in metrics:
            yield Case(
                id=case_id_for(metric, time_id),
                operator=test.operator,
                direction=direction,
                inputs=with_sides(_plain(inputs), test.control, test.treatment),
                dtype=dtype,
                context=context,
                threshold=_threshold(metric, thresholds, share),
                timeout_s=DEFAULT_TIMEOUT_S if timeout is None else timeout,
                metric=metric,
                mode=mode,
                tolerance=Tolerance() if tolerance is None else Tolerance(tolerance.rtol, tolerance.atol),
                files={name: file.record() for name, file in (test.files or {}).items()},
                category=test.category,
                input_sets=_nearest(levels, "input_sets") or 1,
            )


def _threshold(metric: str, thresholds: Mapping[str, float], share: float | None) -> float:
    """The spec's ``share``, the command line's, or the metric's own; what isn't sampled has tolerances instead."""
    if not METRICS[metric].sampled:
        return METRICS[metric].threshold
    return thresholds.get(metric, METRICS[metric].threshold) if share is None else share


def _usual_identifier(test: Test, drawn: Mapping[str, int]) -> str:
    """The operator's last part in lower case, and the index where there is, or may be, another input."""
    name = test.operator.rpartition(".")[2].lower().strip("_")
    return name if drawn and not isinstance(test.inputs, list) else name + "_{ID}"


def _nearest(levels: Sequence[Settings], name: str) -> Any:
    """The field's value at the first level that says it, or None."""
    return next((value for level in levels if (value := getattr(level, name)) is not None), None)


def _directions(levels: Sequence[Settings]) -> tuple[Direction, ...]:
    for level in levels:
        if level.directions is not None:
            return cast(tuple[Direction, ...], tuple(level.directions))
        if level.run_backward is not None:
            return ("forward", "backward") if level.run_backward else ("forward",)
    return ("forward",)


def _case_id(template: str, fields: dict[str, str], mode: str) -> str:
    """``identifier[/dtype][/context][/mode]/direction``: what is usual, or in the identifier, is left out."""
    parts = [re.sub(r"\{([A-Z]+)\}", lambda match: fields[match[1]], template)]
    if fields["DTYPE"] != DEFAULT_DTYPE and "{DTYPE}" not in template:
        parts.append(fields["DTYPE"])
    if fields["CONTEXT"] != DEFAULT_CONTEXT and "{CONTEXT}" not in template:
        parts.append(fields["CONTEXT"])
    if mode != DEFAULT_MODE:
        parts.append(mode)
    return "/".join([*parts, fields["DIRECTION"]])


def _first_shape(inputs: Inputs, origin: str) -> str:
    """The first tensor's shape as ``1x3x64x64``."""
    for value in [*(inputs.args or []), *(inputs.__pydantic_extra__ or {}).values()]:
        for item in value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]:
            shape = item.shape if isinstance(item, Tensor) else item
            if isinstance(shape, list):
                return "x".join(str(size) for size in shape) or "scalar"
    raise UsageError(f"{origin} has no shape for {{SHAPE}} in the identifier: use another placeholder")


def _plain(inputs: Inputs) -> dict[str, Any]:
    """The arguments as the JSON data that they were written as."""
    return inputs.model_dump(exclude={"case"}, exclude_unset=True)


def _not_unique(case_id: str, first: str, second: str) -> UsageError:
    test = first.partition(".")[0]
    same = test == second.partition(".")[0]
    fix = f"add {{ID}} to the identifier of {test}" if same else "give their tests different identifiers"
    return UsageError(f"{second} and {first} have the same id, {case_id}: {fix}")
