"""What is measured, as the options say: cases of a spec, of some of its categories, or of the options' own inputs."""

import dataclasses
import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opduel.commands.ai_pep import FRAMEWORKS
from opduel.commands.config import default_model_cache
from opduel.commands.entry import log
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.implied_framework import builds_of, framework_of_builds, full_names
from opduel.commands.networks import custom_network
from opduel.commands.option_rules import LARGE_TENSORS, named_spec
from opduel.commands.option_types import share
from opduel.commands.programs import fill_command_lines, refuse_program_options
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.frameworks import Framework, framework_names, get_framework
from opduel.frameworks.generic.framework import Generic
from opduel.frameworks.roles import FunctionCases
from opduel.harness.models import fetch_files
from opduel.harness.specs import (
    Settings,
    Spec,
    expand_cases,
    find_spec,
    load_spec,
    plain_of,
    read_plain,
    select_cases,
    validate,
)
from opduel.records import METRICS, VALUE, Case, OpduelError, UsageError, split_kind
from opduel.records.run_record import SuiteRecord
from opduel.support.text import LONGEST_QUOTE, clipped, counted, nearest

LARGEST_INT32 = 2**31 - 1  # elements: one more, and an index needs more than 32 bits
FROM_COMMAND_LINE = "inputs"


@dataclass(frozen=True)
class Choice:
    """What is to be measured. ``path`` is the spec's; None for inputs from the command line alone, and for a suite.

    ``framework`` is set where the cases need one that knows more than the registry's.
    """

    framework_name: str
    path: Path | None
    cases: Sequence[Case]
    label: str = FROM_COMMAND_LINE  # in place of the path
    framework: Framework | None = None
    resources: object = None  # what the cases need as long as they are measured
    suite: ChosenSuite | None = None  # what they are of
    suite_record: SuiteRecord | None = None  # what the report says of it
    draws: bool = False  # whether the run's seed draws some of their sizes

    @property
    def name(self) -> str:
        """The spec's name, for reports."""
        return self.path.stem if self.path else self.label

    @property
    def file_name(self) -> str:
        """The spec's file's name, for people."""
        return self.path.name if self.path else self.label


def is_drawn(spec: Spec, test: Any) -> bool:
    """Whether a spec's test has sizes that the run's seed draws."""
    return bool(getattr(test, "random", None)) and test.seed is None and spec.defaults.seed is None


def choose_cases(options: HarnessOptions, seed: int) -> Choice:
    """The cases that the options ask for; sizes are drawn from ``seed`` where the spec has none of its own. UsageError:
    a bad spec, bad inputs, options that don't go together, or nothing left to measure."""
    if options.statement:
        from opduel.commands.statements import statement_choice

        return statement_choice(options)
    own = custom_network(options, [_parse_inputs(text) for text in (options.network and options.inputs) or ()])
    spec, path = (own.spec, None) if own else _spec(options)
    settings = overriding_settings(options)
    cases = expand_cases(spec, thresholds=options.threshold, metrics=options.metric, settings=settings, seed=seed)
    framework = get_framework(spec.framework)
    if isinstance(framework.cases, FunctionCases):
        options = dataclasses.replace(options, operators=full_names(options.operators))
    refuse_program_options(options, framework)
    cases = fill_command_lines(cases, options, path)
    if are_discovered(cases, framework):
        cases = _pick_by_size(options, cases)
    else:
        cases = pick_cases(cases, options) if own or not options.inputs else _pick_regressed(cases, options)
        cases = sample_cases(_pick_by_size(options, cases), options, seed)
    if options.timeout is not None:
        cases = [dataclasses.replace(case, timeout_s=options.timeout) for case in cases]
    require_two_to_inject(options, cases)
    label = own.name if own else FROM_COMMAND_LINE
    return Choice(spec.framework, path, cases, label, draws=any(is_drawn(spec, test) for test in spec.tests))


def require_two_to_inject(options: HarnessOptions, cases: Sequence[Case]) -> None:
    """Raise UsageError if a slowdown is to be injected, and there is nothing to compare it with."""
    injectable = Counter(case.metric for case in cases if METRICS[case.metric].injectable)
    if options.inject and max(injectable.values(), default=0) < 2:
        raise UsageError("--inject slows every second case: give it two cases or more")


def framework_of(options: HarnessOptions, choice: Choice, frameworks_dir: Path) -> Framework:
    """The cases' framework, with its data in ``frameworks_dir``; UsageError if the options name another one."""
    if choice.framework is not None:
        return choice.framework
    name = choice.framework_name
    if options.framework in FRAMEWORKS and isinstance(programs := get_framework(name, frameworks_dir), Generic):
        return programs.of_folder(options.framework)
    if options.framework is not None and options.framework != name:
        raise UsageError(f"--framework {options.framework}: the spec is for {name}; leave the option out")
    return get_framework(name, frameworks_dir)


def are_discovered(cases: Sequence[Case], framework: Framework) -> bool:
    """Whether there are further cases when it is known what programs print."""
    return framework.cases.discovers_values and any(case.metric == VALUE for case in cases)


def pick_cases(cases: Sequence[Case], options: HarnessOptions) -> list[Case]:
    """Those that ``--operators`` and ``--regressed_types`` leave; UsageError: one matches none."""
    return _pick_regressed(select_cases(cases, options.operators) if options.operators else cases, options)


def sample_cases(cases: Sequence[Case], options: HarnessOptions, seed: int) -> list[Case]:
    """The random sample of ``--sample``, in the order of ``cases``; all of them without it, or if there are no more.

    Cases are ranked by a hash of the seed and the case's id (Sunter 1977, "List sequential sampling", by permanent
    random numbers). A case that comes or goes therefore changes the sample by one case at most.
    """
    amount = options.sample
    if amount is None:
        return list(cases)
    number = math.ceil(len(cases) * share(amount)) if amount.endswith("%") else int(amount)
    ranked = sorted(cases, key=lambda case: hashlib.sha256(f"{seed}:{case.id}".encode()).digest())
    sampled_ids = {case.id for case in ranked[:number]}
    log.info("--sample %s: %d of %s, drawn with seed %d", amount, len(sampled_ids), counted(len(cases), "case"), seed)
    return [case for case in cases if case.id in sampled_ids]


def fetch_case_files(choice: Choice, options: HarnessOptions) -> list[Case]:
    """The cases with the files that they need on this host, fetched if they aren't there. OpduelError: a file can't be
    had, or isn't the one that was meant."""
    cache = Path(options.model_cache or default_model_cache()).absolute()
    try:
        return fetch_files(_with_root_folder(choice.cases, options.root_model_dir), cache, log.info)
    except OpduelError as error:
        raise type(error)(f"{choice.path or choice.name}: {error}") from None


def _with_root_folder(cases: Sequence[Case], root: str | None) -> list[Case]:
    """The cases, with each location that begins with ``//`` below ``root``, as AI-PEP has it; UsageError without a
    root."""
    rooted_cases = []
    for case in cases:
        files = {}
        for name, file in case.files.items():
            if word := re.match(r"\{(\w+)\}", file.location):
                fix = f'add --string_map \'{{"{word[1]}": "..."}}\''
                raise UsageError(f"{case.id}: files.{name}: {file.location}: nothing stands for {word[0]}: {fix}")
            if file.location.startswith("//"):
                if root is None:
                    raise UsageError(
                        f"{case.id}: files.{name}: {file.location} is relative to a folder of models: "
                        "give it with --root_model_dir"
                    )
                file = dataclasses.replace(file, location=str(Path(root, file.location.lstrip("/"))))
            files[name] = file
        rooted_cases.append(dataclasses.replace(case, files=files) if files else case)
    return rooted_cases


def overriding_settings(options: HarnessOptions) -> Settings | None:
    """What the options put in place of the spec's own settings; None for nothing."""
    values: dict[str, Any] = {"dtype": options.dtype, "context": options.ctx, "input_sets": options.input_sets}
    values = {name: value for name, value in values.items() if value is not None}
    values |= {"directions": list(options.directions)} if options.directions else {}
    return Settings(**values) if values else None


def _spec(options: HarnessOptions) -> tuple[Spec, Path | None]:
    """The spec whose cases are chosen from, and its file."""
    if options.inputs:
        return _with_inputs(options)
    path = named_spec(options)
    return load_spec(path, options.category or ()), path


def _with_inputs(options: HarnessOptions) -> tuple[Spec, Path | None]:
    """A spec of the operators named, on the inputs given; of ``-b`` only settings are left."""
    if options.category:
        raise UsageError("--category: --inputs are for the operators named by --operators: leave it out")
    if not options.operators:
        raise UsageError("--inputs: add --operators with the name of the operator that they are for, such as nd.add")
    inputs = [_parse_inputs(text) for text in options.inputs]
    path = find_spec(options.benchmark_file) if options.benchmark_file else None
    base = load_spec(path) if path else None
    tests = []
    framework = base.framework if base else _framework(options)
    is_function = isinstance(get_framework(framework).cases, FunctionCases)
    operators = list(dict.fromkeys(full_names(options.operators) if is_function else options.operators))
    last = Counter(map(_last_part, operators))
    for operator in operators:
        like = next((test for test in base.tests if test.operator == operator), None) if base else None
        if base and like is None:
            raise UsageError(f"{path} has no operator {operator!r} for --inputs: give one that it has, or leave -b out")
        excluded = {"inputs", "random", "count", "identifier"}
        own = like.model_dump(exclude_unset=True, by_alias=True, exclude=excluded) if like else {}
        named = {"identifier": "{OPERATOR}_{ID}"} if last[_last_part(operator)] > 1 else {}  # nd.dot and np.dot
        tests.append({**own, **named, "operator": operator, "inputs": inputs})
    defaults = base.defaults.model_dump(exclude_unset=True) if base else {}
    try:
        return validate({"framework": framework, "defaults": defaults, "tests": tests}), path
    except UsageError as error:
        raise UsageError(_in_options(str(error))) from None


def _last_part(operator: str) -> str:
    """What an operator's cases are called where they have no identifier (``specs.expand``)."""
    return operator.rpartition(".")[2].lower().strip("_")


def _in_options(message: str) -> str:
    """A message on the spec that was made of options, in their words."""
    match = re.match(r"tests\[\d+\]\.(inputs|operator)", message)
    return f"--{match[1].replace('operator', 'operators')}{message[match.end() :]}" if match else message


def _parse_inputs(text: str) -> Any:
    """What one ``--inputs`` says: JSON, or ``@`` and the path of a JSON or YAML file."""
    quoted = clipped(" ".join(text.split()), LONGEST_QUOTE)
    try:
        data = read_plain(Path(text[1:])) if text.startswith("@") else plain_of(text)
    except UsageError as error:
        raise UsageError(f"--inputs {quoted}: {error}") from None
    if not isinstance(data, dict):
        raise UsageError(f'--inputs {quoted}: give an object of arguments, such as {{"lhs": [8, 8], "rhs": [8, 8]}}')
    return data


def _framework(options: HarnessOptions) -> str:
    """The one that is named, that of the builds, or the first that has such operators."""
    if options.framework is not None:
        return str(options.framework)
    roots = {operator.partition(".")[0] for operator in options.operators}
    names = framework_names()
    if (framework := framework_of_builds(builds_of(options))) not in (None, names[0]):
        return str(framework)
    return next((name for name in names if roots & set(get_framework(name).cases.namespaces)), names[0])


def _pick_regressed(cases: Sequence[Case], options: HarnessOptions) -> list[Case]:
    """The cases of ``--regressed_types``, or all; UsageError where there is none of one of the ids."""
    if not options.regressed_types:
        return list(cases)
    case_by_id = {case.id: case for case in cases}
    if options.across is not None or "," in options.platform:  # rows of such a run's report
        case_by_id |= _cases_on_kinds(case_by_id, options.regressed_types)
    for id in options.regressed_types:
        if id not in case_by_id:
            raise UsageError(f"--regressed_types: there is no case {id!r}: {nearest(id, list(case_by_id))}")
    return [case for case in case_by_id.values() if case.id in set(options.regressed_types)]


def _cases_on_kinds(case_by_id: Mapping[str, Case], case_ids: Sequence[str]) -> dict[str, Case]:
    """Of the wanted ids those that name a known case on a kind of host, with the case."""
    parts = ((id, *split_kind(id)) for id in case_ids if id not in case_by_id)
    return {id: case_by_id[key].of_kind(kind) for id, kind, key in parts if kind is not None and key in case_by_id}


def _pick_by_size(options: HarnessOptions, cases: list[Case]) -> list[Case]:
    """With ``--int64_tensor``, only the cases with tensors of more elements than 32 bits can number, or the others."""
    if options.int64_tensor is None:
        return cases
    wants_large = options.int64_tensor == "on"
    remaining = [case for case in cases if (largest_tensor(case.inputs) > LARGEST_INT32) == wants_large]
    if not remaining:
        verb = "has" if wants_large else "has anything but"
        raise UsageError(
            f"--int64_tensor {options.int64_tensor}: no case {verb} tensors of more than {LARGEST_INT32} elements: "
            f"use -b {LARGE_TENSORS}, or leave the option out"
        )
    return remaining


def largest_tensor(inputs: Mapping[str, Any]) -> int:
    """Elements of the largest shape in an input's plain data."""
    return max((_elements(value) for value in inputs.values()), default=0)


def _elements(value: Any) -> int:
    if isinstance(value, dict):
        return 0 if "value" in value else _elements(value.get("shape"))
    if not isinstance(value, list):
        return 0
    if all(isinstance(size, int) for size in value):
        return math.prod(value)
    return max(_elements(item) for item in value)
