"""Documents of earlier versions in the words of this one: the only place that knows the old keys.

Reports, single-build reports and golden manifests carry their version. Entries of a round log carry none, and are
recognised by their keys. What is not as it should be is left as it is: whoever reads the document says what is wrong
with it.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, get_args, get_origin

from opduel.records.case import DEFAULT_METRIC, METRICS, SAMPLED
from opduel.records.configuration import SEPARATORS, RunConfiguration, kinds, rounds_at

_STAGES = {"screen": "screening", "own": "confirmation"}
# Options that a command line may spell in another way than by the name of the configuration's field.
_SPELLINGS = {"-b": "benchmark_file", "-p": "platform", "--platforms": "platform", "--int64-tensor": "int64_tensor"}
# Keys of ``run`` that say the same, also of what no command line had.
_BESIDE = ("env", "alpha", "threads", "inject", "platform", "user_identifier", "run_type", "golden", "profiler")
_OLD_ENTRY = re.compile(r'"(screen|own|last_words|sentinels)"')


def configuration_of(run: Mapping[str, Any]) -> RunConfiguration:
    """What a run was asked for: as its report has it, or as far as other keys of a report without it say."""
    kept, command = run.get("configuration"), run.get("command")
    if isinstance(kept, Mapping):
        return RunConfiguration.of(kept)
    words = [str(word) for word in command] if isinstance(command, list | tuple) else []
    found: dict[str, Any] = {name: run[name] for name in _BESIDE if run.get(name) is not None}
    found |= {"breakdown": run.get("breakdown") == "all", **({"program": words[0]} if words else {})}
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        name = _SPELLINGS.get(option, option[2:] if option.startswith("--") else "")
        if name not in kinds() or name in ("program", "env", "regressed_types"):
            continue
        if kinds()[name] is bool:
            found[name] = not equals
        elif equals or place + 1 < len(words):
            _add(found, name, value if equals else words[place + 1])
    made, rounds = RunConfiguration.of(found), run.get("max_rounds")
    usual = rounds_at(made.threshold.get(DEFAULT_METRIC, METRICS[DEFAULT_METRIC].threshold))
    if made.max_rounds is None and isinstance(rounds, int) and rounds != usual:
        made = replace(made, max_rounds=rounds)
    return made


def _add(found: dict[str, Any], name: str, text: str) -> None:
    """Add what ``text`` says of the option ``name``; nothing if it says nothing that the option could mean."""
    kind = kinds()[name]
    with suppress(ValueError):
        if name == "threshold":
            metric, equals, share = text.rpartition("=")
            names = [metric] if equals else SAMPLED
            found[name] = {**found.get(name, {}), **dict.fromkeys(names, _share(share))}
        elif name == "inject":
            found[name] = _share(text)
        elif float in (kind, *get_args(kind)):
            found[name] = float(text)
        elif int in (kind, *get_args(kind)):
            found[name] = int(text)
        elif get_origin(kind) is tuple:
            found[name] = [*found.get(name, []), *(text.split(SEPARATORS[name]) if name in SEPARATORS else [text])]
        else:
            found[name] = text


def _share(text: str) -> float:
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


Change = Callable[[Any], Any]


def _object(renamed: Mapping[str, str] | None = None, **inside: Change) -> Change:
    """Renames keys of an object and then changes these values; anything else, and the order of keys, stays."""

    def change(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        names = ((renamed or {}).get(key, key) for key in value)
        return {
            name: inside[name](one) if name in inside else one for name, one in zip(names, value.values(), strict=True)
        }

    return change


def _list(change: Change) -> Change:
    return lambda value: [change(one) for one in value] if isinstance(value, list) else value


def _values(change: Change) -> Change:
    return lambda value: {key: change(one) for key, one in value.items()} if isinstance(value, dict) else value


def _stage(value: Any) -> Any:
    return _STAGES.get(value, value) if isinstance(value, str) else value


def _planned(value: Any) -> Any:
    """A case's id and a stage."""
    return [value[0], _stage(value[1])] if isinstance(value, list) and len(value) == 2 else value


_failure = _object({"last_words": "output_tail"})
_failed = _object(failure=_failure)
_samples = _list(_object(stage=_stage))
_run = _object(
    {"trust": "validity", "sentinels": "aa_cases", "broken": "aborted", "stopped": "stop_reason"},
    validity=_object({"trusted": "valid", "sentinels": "aa_checks"}, aa_checks=_list(_object(samples=_samples))),
    looks=_object(_STAGES, by_metric=_values(_object(_STAGES))),
    incidents=_list(_failed),
)
_comparison = _object(
    failure=_failure,
    samples=_samples,
    decided_on=_stage,
    verification=_object(failure=_failure, samples=_samples),
)
_round: Change = _object(
    {"sentinels": "aa_cases"},
    samples=_samples,
    refused=_values(_failure),
    lost=_values(_failure),
    lost_worker=_failure,
    aa_cases=lambda value: _round(value),
)
_entry = _object({"sentinels": "aa_cases"}, planned=_list(_planned), unmeasured=_list(_planned), result=_round)
_report = _object(run=_run, comparisons=_list(_comparison))
_single = _object(run=_run, cases=_list(_failed))
_golden = _object(cases=_values(_failed))


def upgraded_report(document: Mapping[str, Any]) -> dict[str, Any]:
    """A report (``report.json``) of version 1 as one of version 2. ``document`` is not changed."""
    return {**_report(dict(document)), "schema_version": 2}


def upgraded_single(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a single-build run of version 1 as one of version 2."""
    return {**_single(dict(document)), "schema_version": 2}


def upgraded_golden(document: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of golden outputs of version 1 as one of version 2."""
    return {**_golden(dict(document)), "schema_version": 2}


def upgraded_entry(text: str) -> str:
    """An entry of a round log (``opduel.harness.checkpoint``); without old keys, or damaged, it stays as it is."""
    if not _OLD_ENTRY.search(text):
        return text
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_entry(document)) if isinstance(document, dict) else text
